#!/usr/bin/env bash
# Runs libFuzzer on every parser of bytes from outside, each for SECONDS, as many at a time as there are cores. Inputs
# that are worth keeping replace the corpus, which has one input a line in hexadecimal. Inputs that break a parser are
# left in build/fuzz/found.
set -euo pipefail
source "$(dirname -- "${BASH_SOURCE[0]}")/../.ci/prepare.sh"

usage() { say "usage: bash tests/fuzz.sh SECONDS [PARSER...]"; }
[[ ${1-} == --help || ${1-} == -h ]] && usage && exit
[[ ${1-} =~ ^[1-9][0-9]*$ ]] || { usage >&2 && exit 2; }
seconds=$1 corpus=$root/tests/fuzz/corpus
shift
parsers=("$@")
if ((${#parsers[@]} == 0)); then
  for file in "$corpus"/*.hex; do parsers+=("$(basename "$file" .hex)"); done
fi
for parser in "${parsers[@]}"; do
  [[ -r $corpus/$parser.hex ]] || fail "no corpus of '$parser' in $corpus"
done

install_packages "bash tests/fuzz.sh" "${engine_packages[@]}" "${program_packages[@]}" "${test_packages[@]}" \
  "${fuzz_packages[@]}"
build fuzz -DANELLO_BUILD_TESTS=ON -- "${parsers[@]/#/fuzz-}"

work=$(mktemp -d)
export TMPDIR=$work
trap 'rm -rf -- "$work"' EXIT
mkdir -p "$root/build/fuzz/found"

unpack() {
  local line number=0
  mkdir -p "$2"
  while IFS= read -r line; do
    number=$((number + 1))
    # shellcheck disable=SC2001
    printf '%b' "$(sed 's/../\\x&/g' <<<"$line")" >"$2/$number"
  done <"$1"
}
pack() {
  local file
  for file in "$1"/*; do od -An -v -tx1 "$file" | tr -d ' \n' && printf '\n'; done | LC_ALL=C sort -u | sed '/^$/d'
}

fuzz() {
  local parser=$1 program=$root/build/fuzz/tests/fuzz/fuzz-$1 status=0
  unpack "$corpus/$parser.hex" "$work/$parser/old"
  mkdir -p "$work/$parser/all" "$work/$parser/kept"
  "$program" -max_total_time="$seconds" -max_len=2048 -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
    -artifact_prefix="$root/build/fuzz/found/$parser-" "$work/$parser/all" "$work/$parser/old" \
    >"$work/$parser/log" 2>&1 || status=$?
  if ((status != 0)); then
    tail -n 30 -- "$work/$parser/log"
    say "fuzz: $parser: FAILED"
    return 1
  fi
  "$program" -merge=1 "$work/$parser/kept" "$work/$parser/old" "$work/$parser/all" >/dev/null 2>&1
  pack "$work/$parser/kept" >"$work/$parser/hex"
  cp -- "$work/$parser/hex" "$corpus/$parser.hex"
  say "fuzz: $parser: $(sed -n 's/^stat::number_of_executed_units: *//p' "$work/$parser/log") inputs in $seconds s, none broke it; corpus of $(wc -l <"$corpus/$parser.hex")"
}

# All parsers take the same time, so they run in batches. Each is waited for by its id: `wait -n` of bash 5.2 returns 127
# for a process that ended together with another.
status=0
for ((first = 0; first < ${#parsers[@]}; first += $(nproc))); do
  running=()
  for parser in "${parsers[@]:first:$(nproc)}"; do
    fuzz "$parser" &
    running+=($!)
  done
  for process in "${running[@]}"; do wait "$process" || status=1; done
done
exit "$status"
