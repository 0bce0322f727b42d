#!/usr/bin/env bash
# Tries typical names and addresses of hosts. Two hosts in network namespaces of this machine, each with its own
# /etc/hosts, form a world of two ranks through a server on the first host.
# usage: addresses.sh VICTIM-PROGRAM ANELLO-PROGRAM PROGRAM   (PROGRAM through FOLDER: joins by the caller's own means)
set -euo pipefail
source "$(dirname -- "${BASH_SOURCE[0]}")/../../bench/programs.sh"
source "$bench_root/bench/hosts.sh"
if [[ ${ANELLO_NETNS-} != inside ]]; then
  unshare --net true 2>/dev/null || unshare -r --net true 2>/dev/null || exit 77
  enter_private_namespaces "$0" "$@"
fi
victim=$1 anello=$2 program=$3
scratch=$(mktemp -d)
trap 'rm -rf -- "$scratch"' EXIT
make_hosts 2 1000 reno
"$anello" secret "$scratch/secret" >/dev/null

# at I COMMAND...: runs COMMAND on host I, with that host's names.
at() {
  on_host "$1" unshare --mount sh -c 'mount --bind "$0" /etc/hosts && exec "$@"' "$scratch/hosts$1" \
    env ANELLO_SECRET_FILE="$scratch/secret" "${@:2}"
}
wait_for() {
  until grep -Eqs -- "$1" "$2"; do
    kill -0 "$3" 2>/dev/null || fail "'$1' is not in: $(cat "$2")"
    sleep 0.05
  done
}
# serve ADDRESS EXPECTED: starts a server, which must print EXPECTED as its address; sets $port and $server.
serve() {
  : >"$scratch/server"
  at 0 "$anello" rendezvous --once --listen "$1" >"$scratch/server" 2>"$scratch/server.err" &
  server=$!
  wait_for ':[0-9]+$' "$scratch/server" "$server"
  port=$(sed 's/.*://' "$scratch/server")
  [[ $(cat "$scratch/server") == "ANELLO_RENDEZVOUS=$2:$port" ]] || fail "--listen $1: $(cat "$scratch/server")"
}
# rank R HOST [SETTING...]: host R's rank looks for the server at HOST; sets $pid.
rank() {
  at "$1" env ANELLO_RANK="$1" ANELLO_SIZE=2 ANELLO_RENDEZVOUS="$2:$port" ANELLO_FLIGHT_DIR=none "${@:3}" \
    "$victim" small </dev/null >"$scratch/rank$1" 2>&1 &
  pid=$!
}
# join HOST: both ranks look for the server at HOST, and form a world.
join() {
  local first
  rank 0 "$1"
  first=$pid
  rank 1 "$1"
  wait "$first" || fail "rank 0: $(cat "$scratch/rank0")"
  wait "$pid" || fail "rank 1: $(cat "$scratch/rank1")"
  wait "$server" || fail "server: $(cat "$scratch/server.err")"
}
names() {
  printf '%s\n' "$1" >"$scratch/hosts0"
  printf '%s\n' "$2" >"$scratch/hosts1"
}

# /etc/hosts gives each host's own name a loopback address.
names $'127.0.1.1 h0\n10.77.0.2 h1' $'10.77.0.1 h0\n127.0.1.1 h1'
serve h0 10.77.0.1
join h0
echo "a host's own name may mean 127.0.1.1"

# A bridge with the same address on both hosts.
for i in 0 1; do
  ip -n "h$i" link add docker0 type bridge
  ip -n "h$i" addr add 172.17.0.1/16 dev docker0
  ip -n "h$i" link set docker0 up
done
serve 0.0.0.0 10.77.0.1
join h0
serve h0 10.77.0.1
rank 0 h0 ANELLO_IFACE=docker0
first=$pid
rank 1 h0 ANELLO_IFACE=docker0
! wait "$first" && ! wait "$pid" && ! wait "$server"
grep -q 'have the same address 172.17.0.1' "$scratch/rank0" || fail "$(cat "$scratch/rank0")"
echo "bridges with one address on both hosts are not used, and refused if they must be"

serve h0 10.77.0.1
rank 1 h0 ANELLO_IFACE=wlan
! wait "$pid" && ! wait "$server"
for told in rank1 server.err; do
  grep -q "ANELLO_IFACE='wlan' admits none of this host's interfaces: .*eth0 (10.77.0.2)" "$scratch/$told" ||
    fail "$(cat "$scratch/$told")"
done
echo "a wrong interface is refused with those that there are, and the start ends"

# The second host can resolve the name of the server's host only after a while. Until then the server reports the
# missing rank.
names '10.77.0.1 h0' ''
serve h0 10.77.0.1
rank 0 h0
first=$pid
rank 1 h0
wait_for 'waiting for the rendezvous at h0:.*tried to resolve' "$scratch/rank1" "$pid"
wait_for 'waiting: 1 of 2 ranks have joined; missing rank 1$' "$scratch/server.err" "$server"
printf '10.77.0.1 h0\n' >>"$scratch/hosts1"
wait "$first"
wait "$pid"
wait "$server"
echo "a name may become known later"

# A computer without a network has only loopback.
for i in 0 1; do ip -n "h$i" link del docker0; done
ip -n h0 link set eth0 down
at 0 "$anello" run -n 3 "$program" through "$scratch" >"$scratch/ranks" 2>&1 || fail "$(cat "$scratch/ranks")"
ip -n h0 link set eth0 up
echo "a host that has only loopback runs all ranks by itself"

# IPv6 only.
for i in 0 1; do
  ip -n "h$i" addr flush dev eth0
  ip -n "h$i" addr add "fd00:77::$((i + 1))/64" dev eth0 nodad 2>/dev/null || exit 0  # this system has no IPv6
done
names $'127.0.1.1 h0\nfd00:77::2 h1' 'fd00:77::1 h0'
serve h0 '[fd00:77::1]'
join h0
serve :: '[fd00:77::1]'
join '[fd00:77::1]'
echo "hosts may have IPv6 alone"
