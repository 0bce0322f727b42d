#!/usr/bin/env bash
# Runs COMMAND with a higher priority and its own /dev/shm, if each is allowed. So other programs neither delay it, nor
# leave files that would count as its own. Without COMMAND it only ends with 0 if both are allowed, otherwise with 1.
# usage: undisturbed.sh [COMMAND...]
set -euo pipefail
# A thread of COMMAND gets three times as much of a core as a thread of another program. This is enough for COMMAND to
# keep its deadlines, and leaves a quarter of the core for the deadlines of the other program. The highest priority
# would leave only an 87th.
priority=(nice -n -5)
own_shm=(unshare -m bash -c 'mount -t tmpfs none /dev/shm && exec "$@"' own_shm)
missing=0
[[ $("${priority[@]}" nice 2>/dev/null) != "$(nice)" ]] || { priority=() missing=1; }
"${own_shm[@]}" true 2>/dev/null || { own_shm=() missing=1; }
(($# > 0)) || exit "$missing"
exec "${priority[@]}" "${own_shm[@]}" "$@"
