#!/usr/bin/env bash
# Two hosts in network namespaces of this machine, each with two interfaces that carry one job together. First both
# interfaces are equal, then one is fast and the other slow, in both orders. Each must carry bytes in proportion to its
# rate, and the results must be right. Then the second interface of one host is cut, and both ranks report it.
# usage: interfaces.sh VICTIM-PROGRAM ANELLO-PROGRAM BENCH-PROGRAM
set -euo pipefail
source "$(dirname -- "${BASH_SOURCE[0]}")/../../bench/programs.sh"
source "$bench_root/bench/hosts.sh"
if [[ ${ANELLO_NETNS-} != inside ]]; then
  unshare --net true 2>/dev/null || unshare -r --net true 2>/dev/null || exit 77
  enter_private_namespaces "$0" "$@"
fi
victim=$1 anello=$2 bench=$3
scratch=$(mktemp -d)
trap 'rm -rf -- "$scratch"' EXIT
make_hosts 2 16+16 reno
"$anello" secret "$scratch/secret" >/dev/null
export ANELLO_FLIGHT_DIR=none

# limit NUMBER MBIT: limits the rate of interface NUMBER on both hosts. A busy machine has enough time to fill slow
# links.
limit() {
  local host
  for host in 0 1; do
    tc -n "h$host" qdisc replace dev "eth$1" root tbf rate "$2mbit" burst 16384 limit 2mb
  done
}
# sent NUMBER: bytes that this interface of the first host has sent.
sent() { on_host 0 cat /proc/net/dev | awk -v name="eth$1:" '$1 == name { print $10 }'; }

# carry IFACES: sends 4 MiB each way, several times, and checks the results; prints the bytes that each interface sent.
carry() {
  local before=("$(sent 0)" "$(sent 1)")
  ranks_on_hosts "1 1" env ANELLO_IFACE="$1" timeout 100 "$bench" allreduce -s 4M -n 1 -w 0 -c 1 >"$scratch/out" 2>&1 ||
    fail "$1: $(cat "$scratch/out")"
  echo $(($(sent 0) - before[0])) $(($(sent 1) - before[1]))
}

# expect WHAT IFACES MIN MAX: checks the bytes of the first interface divided by those of the second, in percent.
expect() {
  local first second carried
  carried=$(carry "$2") || exit
  read -r first second <<<"$carried"
  echo "$1: $first and $second bytes"
  ((second > 0 && first * 100 >= second * $3 && first * 100 <= second * $4)) || fail "$1: not from $3 to $4 %"
}

expect 'one interface alone' eth0 1000 100000000
expect 'two equal interfaces' eth0+eth1 50 200
limit 1 4
expect 'a fast one and one of a quarter' eth0+eth1 150 1000
expect 'the same in the other order' eth1+eth0 150 1000

ranks_on_hosts "1 1" env ANELLO_IFACE=eth0+wlan "$bench" allreduce -s 4 >"$scratch/out" 2>&1 &&
  fail "an interface that no host has was accepted: $(cat "$scratch/out")"
grep -q "ANELLO_IFACE='wlan' admits none of this host's interfaces: .*eth1 (10.77.1." "$scratch/out" ||
  fail "$(cat "$scratch/out")"
echo "an interface that a host does not have is refused with those that there are"

# A busy machine must not look like the cut. So no data waits in a slow interface any more, and the limit is longer than
# a process usually waits for a core. If a heartbeat is late all the same, the error names no address, and the cut is
# tried again.
limit 1 16
mkfifo "$scratch/open"
exec 9<>"$scratch/open"  # an input that does not end

# cut_interface: returns 0 if both ranks name the address, and 1 if one rank reports that the other rank is completely
# silent.
cut_interface() {
  local all rank code=0
  rm -f "$scratch"/rank?
  ip -n switch link set port1-1 up
  ranks_on_hosts "1 1" env ANELLO_IFACE=eth0+eth1 ANELLO_SILENCE_LIMIT=5000 \
    sh -c 'exec "$0" busy <"$1/open" >"$1/rank$ANELLO_RANK"' "$victim" "$scratch" &
  all=$!
  for rank in 0 1; do
    until grep -qs ready "$scratch/rank$rank"; do
      kill -0 "$all" 2>/dev/null || fail "the ranks have ended"
      sleep 0.05
    done
  done
  ip -n switch link set port1-1 down
  wait "$all" || true
  for rank in 0 1; do
    grep -q 'told .* rank_silent .*10.77.1.[12] port' "$scratch/rank$rank" && continue
    grep -q 'told .* rank_silent .* is silent: ' "$scratch/rank$rank" || fail "rank $rank: $(cat "$scratch/rank$rank")"
    code=1
  done
  return "$code"
}

for attempt in 1 2 3; do
  if cut_interface; then
    echo "both ranks are told that an interface is cut"
    exit
  fi
  echo "attempt $attempt: a heartbeat was late over the interface that is not cut"
done
fail "no rank was told of the interface that is cut: $(cat "$scratch"/rank?)"
