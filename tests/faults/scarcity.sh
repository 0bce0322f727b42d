#!/usr/bin/env bash
# Tests a full disk under the checkpoint, a /dev/shm of 64 KiB, and 32 ranks that may open 48 files each. Each case must
# give right results, or an error that says what to do. usage: scarcity.sh ANELLO TRAINER. Ends with 77 if this system
# does not allow mounts.
set -euo pipefail

if [[ ${1-} != --inside ]]; then
  unshare --user --map-root-user --mount true 2>/dev/null || exit 77
  exec unshare --user --map-root-user --mount bash "$0" --inside "$@"
fi
shift
anello=$1 trainer=$2
work=$(mktemp -d)
trap 'umount "$work"; rmdir "$work"' EXIT

fail() {
  printf '%s\n' "$1" >&2
  [[ ! -e $work/out ]] || cat -- "$work/out" >&2
  exit 1
}
expect() { grep -q -- "$1" "$work/out" || fail "it does not say '$1'"; }
train() { "$anello" run -n "$1" -- "$trainer" "${@:2}" >"$work/out" 2>&1; }

# There is room for one checkpoint, but not for a second one beside it. So the first one is kept, and the training
# continues from it.
mount -t tmpfs -o size=640k none "$work"
train 4 --epochs 1 --checkpoint "$work/state" || fail "the first epoch failed"
train 4 --epochs 2 --resume --checkpoint "$work/state" && fail "a full disk was not noticed"
expect "checkpoint '$work/state' cannot be written: .*No space left on device"
mount -o remount,size=4m "$work"
train 4 --epochs 2 --resume --checkpoint "$work/state" || fail "the checkpoint before was lost"
expect "epoch 2/2"

mount -t tmpfs -o size=64k none /dev/shm
train 4 --epochs 1 || fail "a small /dev/shm was too small"

"$anello" run -n 32 -- sh -c 'ulimit -n 48; exec "$0" --epochs 1' "$trainer" >"$work/out" 2>&1 &&
  fail "48 files were enough: too few were asked for"
grep -E '^\[[0-9]+\] anello-train: ' "$work/out" >"$work/said" || fail "nobody said why"
! grep -v 'ulimit -n' "$work/said" >&2 || fail "somebody did not say what to do"
