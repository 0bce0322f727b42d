#!/usr/bin/env bash
# Runs COMMAND with a higher priority and its own /dev/shm, if each is allowed. So other programs neither delay it, nor
# leave files that would count as its own. Without COMMAND it only ends with 0 if both are allowed, otherwise with 1.
# usage: undisturbed.sh [COMMAND...]
set -euo pipefail
# A thread gets three times as much of a core as one of another program. That is enough for COMMAND to keep its
# deadlines, and leaves a quarter to the other program for its own deadlines. With the highest priority it would leave
# only an 87th.
priority=(nice -n -5)
own_shm=(unshare -m bash -c 'mount -t tmpfs none /dev/shm && exec "$@"' own_shm)
missing=0
[[ $("${priority[@]}" nice 2>/dev/null) != "$(nice)" ]] || { priority=() missing=1; }
"${own_shm[@]}" true 2>/dev/null || { own_shm=() missing=1; }
(($# > 0)) || exit "$missing"
exec "${priority[@]}" "${own_shm[@]}" "$@"
