#!/usr/bin/env bash
# From a bare Debian to a trained model: installs what is missing, builds, trains on four ranks with real data, and then
# shows what happens when a rank is killed in the middle.
set -euo pipefail
source "$(dirname -- "${BASH_SOURCE[0]}")/../.ci/prepare.sh"

if (($# > 0)); then
  say "usage: bash trainer/quickstart.sh"
  [[ $1 == --help || $1 == -h ]] && exit 0
  exit 2
fi

anello=build/release/rendezvous/anello
train=build/release/trainer/anello-train

scratch=$(mktemp -d)
trap 'rm -rf -- "$scratch"' EXIT

# Kills rank 2 of a long training. The other ranks must report which rank died, and the job must end with that rank's
# status.
kill_a_rank() {
  local launcher status=0 tries
  ANELLO_FLIGHT_DIR=$scratch "$anello" run -n 4 -- sh -c 'echo $$ >"$0/$ANELLO_RANK"; exec "$@"' "$scratch" "$train" --epochs 10000 \
    >"$scratch/killed" 2>&1 &
  launcher=$!
  for ((tries = 0; tries < 300; tries++)); do
    ! grep -qs 'epoch  *1/' "$scratch/killed" || break
    sleep 0.1
  done
  kill -KILL "$(cat "$scratch/2")"
  wait "$launcher" || status=$?
  grep -E 'died:|was killed' "$scratch/killed" || { cat "$scratch/killed" && return 1; }
  ((status == 137)) || { say "exit code 137 was expected, and it was $status" && return 1; }
}

install_packages "bash trainer/quickstart.sh" "${engine_packages[@]}" "${program_packages[@]}"
build release -DANELLO_BUILD_TESTS=OFF -- anello anello-train

say ""
say "+ anello run -n 4 -- anello-train"
"$anello" run -n 4 -- "$train" | tee "$scratch/log"
result=$(grep -oE 'test accuracy [0-9.]+ %' "$scratch/log" | tail -n 1) || result='no accuracy was reported'

say ""
say "+ the same again, and rank 2 is killed with SIGKILL"
kill_a_rank || fail "quickstart: FAILED: killing a rank did not end the job as it should"

say ""
say "quickstart: DONE: four ranks trained, $result; a killed rank was named and ended the job"
