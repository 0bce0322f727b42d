# Hosts on one machine, for netns.sh: network namespaces h0, h1, ... behind a switch, each on a link of its own with MTU
# 1500 that carries so many bits a second each way. They live in namespaces of processes and mounts that end with the
# script, however it ends: nothing of them is seen outside, and nothing has to be removed.
# shellcheck shell=bash disable=SC2016,SC2093,SC2154

# enter_private_namespaces SCRIPT ARGUMENTS...: does not return, but runs the script again, inside.
enter_private_namespaces() {
  local unshare
  for unshare in 'unshare' 'unshare -r'; do
    $unshare --net --mount true 2>/dev/null || continue
    exec $unshare --net --mount --pid --fork --mount-proc --kill-child env ANELLO_NETNS=inside bash "$@"
  done
  fail "this system lets us make no network namespaces; try it as root"
}

# make_hosts COUNT MBIT CONGESTION [GSO]. A link that was idle may send a burst at once. That has to hold the largest packet
# that the stack leaves to be cut up late (gso), and what the link carries while a timer is 100 us late; it may not hold
# more, or the link would be faster than it is said to be. Small packets make short messages travel as on a real link, large
# ones leave the cores to the programs: each packet is timed by them, not by a network card.
make_hosts() {
  local i end gso=${4:-16384}
  (($2 <= 1000)) || gso=65536
  local link=(mtu 1500 gso_max_size "$gso")
  mount -t tmpfs tmpfs /run
  ip netns add switch
  ip -n switch link add bridge type bridge
  ip -n switch link set bridge up
  for ((i = 0; i < $1; i++)); do
    ip netns add "h$i"
    ip link add eth0 "${link[@]}" netns "h$i" type veth peer name "port$i" "${link[@]}" netns switch
    ip -n "h$i" addr add "10.77.0.$((i + 1))/24" dev eth0
    ip -n "h$i" link set lo up
    ip -n "h$i" link set eth0 up
    ip -n switch link set "port$i" master bridge up
    for end in "h$i eth0" "switch port$i"; do
      tc -n "${end% *}" qdisc add dev "${end#* }" root tbf rate "$2mbit" burst $((gso + $2 * 25 / 2)) limit 2mb
    done
    on_host "$i" sh -c "echo '$3' >/proc/sys/net/ipv4/tcp_congestion_control" 2>/dev/null ||
      fail "-c '$3' is not among those that this system lets us use:" \
        "$(cat /proc/sys/net/ipv4/tcp_allowed_congestion_control 2>/dev/null)"
    printf '10.77.0.%d h%d\n' $((i + 1)) "$i"
  done >"$scratch/hosts"
  [[ ! -e /etc/hosts ]] || mount --bind "$scratch/hosts" /etc/hosts  # for who looks names up: MPI
}

# limit_connections MBIT LINK_MBIT: each connection between hosts 0 and 1, told from others by four bits of its port on
# host 1, which is the one that connects, carries so much at most. Clouds have such limits. Two connections that meet in
# these bits share one limit.
limit_connections() {
  local end tc port class
  for end in 0:dport 1:sport; do
    tc="tc -n h${end%:*}" port=${end#*:}
    $tc qdisc replace dev eth0 root handle 1: htb
    $tc class add dev eth0 parent 1: classid 1:ff htb rate "$2mbit" quantum 60000
    for class in {0..15}; do
      $tc class add dev eth0 parent 1:ff classid "1:$((10 + class))" htb rate "$1mbit" quantum 60000
      $tc filter add dev eth0 parent 1: protocol ip u32 match ip "$port" $((class * 2)) 0x001e flowid "1:$((10 + class))"
    done
  done
}

# on_host I COMMAND...
on_host() {
  nsenter --net="/run/netns/h$1" unshare --uts sh -c 'hostname "$0" && exec "$@"' "h$1" "${@:2}"
}

# ranks_on_hosts WORLD COMMAND...: rank I on host I; ours meet at a server on the first.
ranks_on_hosts() {
  local rank ranks=() server code=0
  # In place of the subshell, so that to end the one is to end the other.
  (exec nsenter --net=/run/netns/h0 "$anello" rendezvous --listen 10.77.0.1 --port 4711 --secret-file "$scratch/secret") \
    >/dev/null &
  server=$!
  for ((rank = 0; rank < $1; rank++)); do
    on_host "$rank" env ANELLO_RANK="$rank" ANELLO_SIZE="$1" ANELLO_RENDEZVOUS=10.77.0.1:4711 \
      ANELLO_SECRET_FILE="$scratch/secret" "${@:2}" &
    ranks+=($!)
  done
  for rank in "${ranks[@]}"; do wait "$rank" || code=$?; done
  kill "$server"
  wait
  return "$code"
}
