#!/usr/bin/env bash
# Runs worlds of real processes for SECONDS, with faults drawn at random (killed, stopped, paused, without a rendezvous,
# none). Checks each result, and looks for everything that is left behind. Fails if anything was not as promised.
set -euo pipefail
source "$(dirname -- "${BASH_SOURCE[0]}")/../.ci/prepare.sh"

usage() { say "usage: bash tests/soak.sh [SECONDS [FIRST-SEED]]   (60 seconds, seeds from 1 on)"; }
[[ ${1-} != --help && ${1-} != -h ]] || { usage && exit; }
(($# <= 2)) || { usage >&2 && exit 2; }
install_packages "bash tests/soak.sh" "${engine_packages[@]}" "${program_packages[@]}" "${test_packages[@]}"
build release -DANELLO_BUILD_TESTS=ON -- anello-faults anello-victim
soak=("$root/build/release/tests/faults/anello-faults" soak "${1-60}" "${2-1}")
exec bash "$root/tests/faults/undisturbed.sh" "${soak[@]}"
