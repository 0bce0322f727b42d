#!/usr/bin/env bash
# Installs what is missing, builds, and runs the core test suite on the release build; with --sanitizers also the tests
# labelled `core` under the address+undefined and the thread sanitizer. Fails if anything fails, if no test ran, or if a
# test that is not listed below was skipped.
set -euo pipefail
source "$(dirname -- "${BASH_SOURCE[0]}")/../.ci/prepare.sh"

# 'pattern of test names|why it may be skipped'
allowed_skips=("Allocations.ThereAreNone*|the machine is too busy for an operation without a stall"
  "Meeting.WithoutOpenSsl*|this build has OpenSSL"
  "MeetingWithASecret.AtAMasterWithTwoNames|this host has only loopback"
  "Rendezvous.WorksOverIpv6|this host has no IPv6"
  "Secret.AnothersFileMayBe*|the user is not root"
  "FlightFiles.OfOtherUsersDoNot*|the user is not root"
  "LocalExchange.AnotherUserGets*|the user is not root"
  "LocalExchange.ASocketOfAnother*|the user is not root"
  "Scripts.Netns*|this system lets nobody make network namespaces, or they are made by root alone"
  "Cluster.*|this system lets nobody make namespaces or has no /sys/fs/cgroup, or the user is not root"
  "Faults.APartition*|this system lets nobody make network namespaces"
  "Faults.SeveralInterfaces*|this system lets nobody make network namespaces"
  "Faults.ANameOrAddress*|this system lets nobody make network namespaces"
  "Faults.WhatIsScarce*|this system lets nobody mount anything"
  "Python.torch2_*|today's PyTorch takes 4 GB; bash tests/run.sh --frameworks installs it"
  "Python.wheel|compiling everything anew takes minutes; bash tests/run.sh --wheel does"
  "Program.OnAMountWithNoexec|this system lets nobody mount anything"
  "ThisHost.MustHaveLoopback|this system lets nobody make network namespaces")

# install_environment NAME: makes build/NAME while the compiler works, because much of the time goes to the network. The
# process has a process group of its own, so that all its children can be ended.
declare -A installing=()
install_environment() {
  set -m
  bash tests/python/frameworks.sh "$root/build/$1" "$1.txt" &
  installing[$1]=$!
  set +m
}

# Waits for the environments. Tests that need an environment that could not be made may be skipped.
await_environments() {
  local name why
  for name in "${!installing[@]}"; do
    wait "${installing[$name]}" && continue
    why="what tests/python/$name.txt lists could not be installed, as said above"
    case $name in
      frameworks)
        allowed_skips+=("Python.frameworks|$why" "Python.keras_*|$why" "Python.tensorflow_*|$why"
          "Python.elastic_tensorflow|$why")
        ;;
      lint) allowed_skips+=("Lint|$why") ;;
      torch) allowed_skips+=("Python.torch2_*|$why") ;;
    esac
  done
  installing=()
}

usage() {
  cat <<'TEXT'
usage: bash tests/run.sh [--sanitizers | --nightly | --interop | --frameworks | --wheel]
  --sanitizers  also under the address+undefined and the thread sanitizer
  --nightly     likewise, and the tests that take long: the others leave them out and say which they are
  --interop     only the tests that need other systems (MPI, Slurm, ssh, Grid Engine)
  --frameworks  only the tests that need TensorFlow, Keras, JAX or today's PyTorch, which it installs into
                build/frameworks and build/torch
  --wheel       only the test of the wheel, which it makes in build/wheel
TEXT
}

passed=0 failed=0 skipped=0 verdict=() problems=()

allowed_skip() {
  local entry
  for entry in "${allowed_skips[@]}"; do
    # shellcheck disable=SC2053
    [[ $1 != ${entry%%|*} ]] || { say "skipped: $1: ${entry#*|}" && return; }
  done
  return 1
}

# count NAME RESULT: counts a case, or a test that does not use GoogleTest.
count() {
  case $2 in
    completed | run) ran=$((ran + 1)) ;;
    failed | fail) failed=$((failed + 1)) && problems+=("$suite: $1 failed") ;;
    missing) failed=$((failed + 1)) && problems+=("$suite: $1 did not come to its end") ;;
    *) skipped=$((skipped + 1)) && { allowed_skip "$1" || problems+=("$suite: $1 was not run"); } ;;
  esac
}

# Reads the file of GoogleTest, or that of discover.cmake. It has one <testcase name="..." ... result="..." ...> for
# each case, followed by <failure ...> if the case failed.
count_cases() {
  local test=$1 file=$2 status=$3 begun=$4 line name='' result='' before=$failed
  while IFS= read -r line; do
    if [[ $line =~ '<testcase name="'([^\"]*)'"'.*' result="'([a-z]+)'"'.*' classname="'([^\"]*)'"' ]]; then
      [[ -z $name ]] || count "$name" "$result"
      name=${BASH_REMATCH[3]}.${BASH_REMATCH[1]} result=${BASH_REMATCH[2]}
    elif [[ $line == *'<failure '* ]]; then
      result=failed
    fi
  done <"$file"
  if [[ -z $name ]]; then
    problems+=("$suite: $test ran no case")
  else
    count "$name" "$result"
  fi
  [[ $status == run ]] || ((failed > before)) || { failed=$((failed + 1)) && problems+=("$suite: $test failed"); }
  ! grep -q 'result="missing"' "$file" || problems+=("$suite: $test ended during $begun")
}

# Reads CTest's JUnit file: one <testcase name="..." ... status="run|fail|notrun|disabled"> a test, and what it printed.
count_results() {
  local suite=$1 junit=$2 results=$root/build/$1/tests/results line test='' status='' begun='' file ran=0
  [[ -r $junit ]] || { problems+=("$suite: ctest wrote no result") && return; }
  while IFS= read -r line; do
    if [[ $line =~ '<testcase name="'([^\"]*)'"'.*' status="'([a-z]+)'"' ]]; then
      test=${BASH_REMATCH[1]} status=${BASH_REMATCH[2]} begun=nothing
    elif [[ $line == '[ RUN      ] '* ]]; then
      begun=${line#*] }
    elif [[ $line == *'</testcase>' ]]; then
      file=$results/${test//\//.}.xml
      if [[ -r $file ]]; then
        count_cases "$test" "$file" "$status" "$begun"
      else
        count "$test" "$status"
      fi
    fi
  done <"$junit"
  ((ran > 0)) || problems+=("$suite: no test ran")
  passed=$((passed + ran))
  verdict+=("$suite $ran")
}

run_suite() {
  local preset=$1 junit=$root/build/$1-tests.xml status=0
  build "$preset" -DANELLO_BUILD_TESTS=ON -DANELLO_NIGHTLY=$nightly -- "${targets[@]}"
  await_environments
  rm -rf -- "$junit" "$root/build/$preset/tests/results"
  say "tests: ctest --preset $preset"
  # Five fifths are a place (tests/schedule). CTest keeps the end of a long output, which names the case that crashed.
  ctest --preset "$preset" "${label[@]}" -j "$((5 * ($(nproc) + 1)))" --test-output-truncation head \
    --output-junit "$junit" || status=$?
  count_results "$preset" "$junit"
  ((status == 0 || ${#problems[@]} > 0)) || problems+=("$preset: ctest ended with status $status")
}

suites=(release) label=() targets=() nightly=OFF
case $#:${1-} in
  0:) ;;
  1:--sanitizers) suites=(release asan tsan) ;;
  1:--nightly) suites=(release asan tsan) nightly=ON ;;
  1:--interop)
    ((EUID == 0)) || fail "tests: --interop needs root, for namespaces"
    label=(-L cluster) nightly=ON
    ;;
  1:--frameworks) label=(-L frameworks) ;;
  1:--wheel) label=(-L wheel) targets=(anello_python) ;;
  1:--help | 1:-h) usage && exit ;;
  *) usage >&2 && exit 2 ;;
esac

# The folder for temporary files is removed at the end, with the files that failing jobs leave there.
TMPDIR=$(mktemp -d)
export TMPDIR
trap 'kill -- "${installing[@]/#/-}" 2>/dev/null || true; rm -rf -- "$TMPDIR"' EXIT
install_packages "bash tests/run.sh" "${engine_packages[@]}" "${program_packages[@]}" "${test_packages[@]}"
if [[ ${1-} == --wheel ]]; then
  say "tests: making the wheel; log: build/wheel.log"
  mkdir -p build
  bash trainer/python/wheel.sh >build/wheel.log 2>&1 || fail_with_log "tests: the wheel could not be made" build/wheel.log
else
  install_environment frameworks
fi
((${#label[@]} > 0)) || install_environment lint
if [[ ${1-} == --frameworks ]]; then
  install_environment torch
  await_environments
  [[ -e build/frameworks/complete ]] || { say "tests: SKIPPED: TensorFlow and JAX could not be installed" && exit; }
fi
command -v clang++ >/dev/null || allowed_skips+=("Clang|clang is not there")
for suite in "${suites[@]}"; do run_suite "$suite"; done

status=0
if ((${#problems[@]} > 0)); then
  printf 'tests: %s\n' "${problems[@]}"
  say "tests: FAILED"
  status=1
else
  printf -v list '%s, ' "${verdict[@]}"
  say "tests: PASSED (${list%, }) in $((SECONDS / 60)) min $((SECONDS % 60)) s"
fi
say "$passed passed, $failed failed, $skipped skipped"
exit "$status"
