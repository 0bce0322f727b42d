#!/usr/bin/env bash
# Installs what is missing, builds, and runs the core test suite on the release build; with --sanitizers also the tests
# labelled `core` under the address+undefined and the thread sanitizer. Fails if anything fails, if no test ran, or if a test was
# skipped that is not listed below.
set -euo pipefail
source "$(dirname -- "${BASH_SOURCE[0]}")/../.ci/prepare.sh"

# 'pattern of test names|why it may be skipped'
allowed_skips=("Scripts.NetnsPutsARank*|network namespaces are made by root alone"
  "Faults.APartition*|this system lets nobody make network namespaces"
  "Faults.WhatIsScarce*|this system lets nobody mount anything")

usage() {
  cat <<'TEXT'
usage: bash tests/run.sh [--sanitizers | --interop]
  --sanitizers  also under the address+undefined and the thread sanitizer
  --interop     the tests that need other systems (MPI, Slurm, torch)
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

# Reads CTest's JUnit file: one <testcase name="..." ... status="run|fail|notrun|disabled"> a test.
count_results() {
  local suite=$1 junit=$2 line name ran=0
  [[ -r $junit ]] || { problems+=("$suite: ctest wrote no result") && return; }
  while IFS= read -r line; do
    [[ $line =~ '<testcase name="'([^\"]*)'"'.*' status="'([a-z]+)'"' ]] || continue
    name=${BASH_REMATCH[1]}
    case ${BASH_REMATCH[2]} in
      run) ran=$((ran + 1)) ;;
      fail) failed=$((failed + 1)) && problems+=("$suite: $name failed") ;;
      *) skipped=$((skipped + 1)) && { allowed_skip "$name" || problems+=("$suite: $name was not run"); } ;;
    esac
  done <"$junit"
  ((ran > 0)) || problems+=("$suite: no test ran")
  passed=$((passed + ran))
  verdict+=("$suite $ran")
}

run_suite() {
  local preset=$1 junit=$root/build/$1-tests.xml status=0
  build "$preset" -DANELLO_BUILD_TESTS=ON --
  rm -f -- "$junit"
  say "tests: ctest --preset $preset"
  ctest --preset "$preset" -j "$(nproc)" --output-junit "$junit" || status=$?
  count_results "$preset" "$junit"
  ((status == 0 || ${#problems[@]} > 0)) || problems+=("$preset: ctest ended with status $status")
}

suites=(release)
case $#:${1-} in
  0:) ;;
  1:--sanitizers) suites=(release asan tsan) ;;
  1:--interop)
    say "tests: there are no tests yet that need other systems" >&2
    exit 2
    ;;
  1:--help | 1:-h) usage && exit ;;
  *) usage >&2 && exit 2 ;;
esac

# What failing jobs leave in the folder for temporary files goes with it.
TMPDIR=$(mktemp -d)
export TMPDIR
trap 'rm -rf -- "$TMPDIR"' EXIT
install_packages "bash tests/run.sh" "${engine_packages[@]}" "${program_packages[@]}" "${test_packages[@]}"
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
