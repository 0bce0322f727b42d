#!/usr/bin/env bash
# A network that is cut without any notice: three hosts in network namespaces of this machine, with a rank on each. The
# link of one host goes down while the ranks reduce. All three ranks must report the cut at most one second after the
# limit. Two of them must name the third, and the third must name one of the two. On a busy machine the reports may be
# late, so there are three attempts.
# usage: partition.sh VICTIM-PROGRAM ANELLO-PROGRAM
set -euo pipefail
source "$(dirname -- "${BASH_SOURCE[0]}")/../../bench/programs.sh"
source "$bench_root/bench/hosts.sh"
if [[ ${ANELLO_NETNS-} != inside ]]; then
  unshare --net true 2>/dev/null || unshare -r --net true 2>/dev/null || exit 77
  enter_private_namespaces "$0" "$@"
fi
victim=$1 anello=$2 limit_ms=3000
scratch=$(mktemp -d)
trap 'rm -rf -- "$scratch"' EXIT
make_hosts 3 1000 reno
"$anello" secret "$scratch/secret" >/dev/null
mkfifo "$scratch/open"
exec 9<>"$scratch/open"  # an input that does not end

ranks() {
  ranks_on_hosts "1 1 1" env ANELLO_SILENCE_LIMIT=$limit_ms ANELLO_FLIGHT_DIR=none \
    sh -c 'exec "$0" busy <"$1/open" >"$1/rank$ANELLO_RANK"' "$victim" "$scratch" || true
}
# Makes one cut. Sets `late` if a rank reported it late; ends with 1 if a rank did not report it, or reported another
# error.
trial() {
  rm -f -- "$scratch"/rank*
  ranks &
  local all=$! rank at_ns name culprit after cut_ms
  for rank in 0 1 2; do
    until grep -qs ready "$scratch/rank$rank"; do
      kill -0 "$all" 2>/dev/null || { echo "the ranks ended before all were ready" && exit 1; }
      sleep 0.05
    done
  done
  sleep 0.3
  cut_ms=$(awk '{ print int($1 * 1000) }' /proc/uptime)
  ip -n switch link set port2 down
  wait "$all"
  ip -n switch link set port2 up
  for rank in 0 1 2; do
    read -r _ _ at_ns name culprit _ < <(grep told "$scratch/rank$rank" || echo "nothing 0 0 none -1 -")
    after=$((at_ns / 1000000 - cut_ms))
    echo "rank $rank was told $name of rank $culprit after $after ms"
    ((after <= limit_ms + 1000)) || late=1
    [[ $name == rank_silent ]] && ((after >= limit_ms / 2)) || exit 1
    case $rank in 2) ((culprit == 0 || culprit == 1)) ;; *) ((culprit == 2)) ;; esac || exit 1
  done
}
for _ in 1 2 3; do
  late=0
  trial
  ((late)) || exit 0
done
exit 1
