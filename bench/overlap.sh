#!/usr/bin/env bash
# Compares how much communication a backward pass does not hide, with our buckets and with PyTorch's
# DistributedDataParallel (Debian: python3-torch), in turn. The ranks are on two hosts, in network namespaces of this
# machine with links of a given rate; or they are two ranks over loopback, where communication needs the same cores.
# shellcheck disable=SC2034
set -euo pipefail
source "$(dirname -- "${BASH_SOURCE[0]}")/programs.sh"
source "$bench_root/bench/hosts.sh"
source "$bench_root/bench/contenders.sh"

where=1gbit rounds=3 backward=800 steps=5 buckets=0 idle=()
usage() {
  cat <<TEXT
usage: bench/overlap.sh [-l RATE | -l loopback] [-t MS] [-r ROUNDS] [-s STEPS] [-b BYTES,...] [-i] [-B DIR]
  -l RATE    of each host's link: 100mbit, 1gbit; or loopback ($where)
  -t MS      time that the backward pass computes ($backward)
  -r ROUNDS  in each, ours and PyTorch's run once ($rounds)
  -s STEPS   of each kind in a run ($steps)
  -b BYTES   maximum of our buckets, a list; 0: the library's own choice ($buckets)
  -i         the backward pass leaves the core free, as one on a GPU does
  -B DIR     where the programs are (the release build, or PATH)
TEXT
}

arguments=("$@")
while getopts :l:t:r:s:b:iB:h option; do
  case $option in
    l) where=$OPTARG ;;
    t) backward=$(whole -t "$OPTARG") ;;
    r) rounds=$(whole -r "$OPTARG") ;;
    s) steps=$(whole -s "$OPTARG") ;;
    b) buckets=$OPTARG ;;
    i) idle=(--idle) ;;
    B) bin=$OPTARG ;;
    h) usage && exit ;;
    *) usage >&2 && exit 2 ;;
  esac
done
((OPTIND > $#)) || fail "unknown option '${!OPTIND}'"
[[ $where == loopback || $where =~ ^([1-9][0-9]{0,4})(m|g)bit$ ]] || fail "-l must be loopback or a rate such as 1gbit, not '$where'"
anello=$(need_program anello)
ours=$(need_program anello-bench)
torch_python=$(find_torch_python) || echo "PyTorch: $(torch_missing)" >&2

if [[ $where != loopback ]]; then
  mbit=${BASH_REMATCH[1]}
  [[ ${BASH_REMATCH[2]} == m ]] || mbit=$((mbit * 1000))
  [[ ${ANELLO_NETNS-} == inside ]] || enter_private_namespaces "$0" "${arguments[@]}"
fi
scratch=$(mktemp -d)
trap 'rm -rf -- "$scratch"' EXIT
if [[ $where == loopback ]]; then
  ranks() { ANELLO_TRANSPORT=tcp "$anello" run --bind -n 2 -- "$@"; }
else
  make_hosts 2 "$mbit" reno 65536
  "$anello" secret "$scratch/secret" >/dev/null
  ranks() { ranks_on_hosts "1 1" env GLOO_SOCKET_IFNAME=eth0 "$@"; }
fi

for ((round = 1; round <= rounds; round++)); do
  echo "-- anello, $where, round $round"
  ranks "$ours" step --backward "$backward" -r "$steps" --buckets "$buckets" "${idle[@]}"
  [[ -n $torch_python ]] || continue
  echo "-- PyTorch, $where, round $round"
  ranks timeout 300 "$torch_python" "$bench_root/bench/torch_step.py" --store "$(mktemp -d -p "$scratch")" --backward "$backward" \
    -r "$steps" "${idle[@]}"
done
