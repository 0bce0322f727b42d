#!/usr/bin/env bash
# Runs COMMAND with a higher priority and a /dev/shm of its own, each where it is allowed, so that what runs beside it
# neither makes it late nor looks like something that it left. Without COMMAND it only ends with 0 where both are
# allowed, else with 1.
# usage: undisturbed.sh [COMMAND...]
set -euo pipefail
# A thread gets three times as much of a core as one beside it: enough for COMMAND to keep its deadlines, and the other
# keeps a quarter, for its own deadlines. With the highest priority it would keep an 87th.
priority=(nice -n -5)
own_shm=(unshare -m bash -c 'mount -t tmpfs none /dev/shm && exec "$@"' own_shm)
missing=0
[[ $("${priority[@]}" nice 2>/dev/null) != "$(nice)" ]] || { priority=() missing=1; }
"${own_shm[@]}" true 2>/dev/null || { own_shm=() missing=1; }
(($# > 0)) || exit "$missing"
exec "${priority[@]}" "${own_shm[@]}" "$@"
