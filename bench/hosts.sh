# Simulates hosts on one machine, for netns.sh: network namespaces h0, h1, ... behind a switch. Each has its own link
# with MTU 1500 and a given rate in each direction. They are inside private namespaces of processes and mounts, which
# end with the script in any case. So they are not visible outside, and nothing has to be removed.
# shellcheck shell=bash disable=SC2093,SC2154

# enter_private_namespaces SCRIPT ARGUMENTS...: runs the script again inside private namespaces; does not return.
enter_private_namespaces() {
  local unshare
  for unshare in 'unshare' 'unshare -r'; do
    $unshare --net --mount true 2>/dev/null || continue
    exec $unshare --net --mount --pid --fork --mount-proc --kill-child env ANELLO_NETNS=inside bash "$@"
  done
  fail "network namespaces cannot be made here; run it as root"
}

# make_hosts COUNT MBIT CONGESTION [GSO]: makes h0, h1, ... If MBIT is a list such as 1000+100, each host has one
# interface for each rate: eth0 in network 10.77.0.0/24, eth1 in 10.77.1.0/24, ...
make_hosts() {
  local i k rates
  IFS=+ read -ra rates <<<"$2"
  [[ $scratch == /run/* ]] || mount -t tmpfs tmpfs /run
  ip netns add switch
  for k in "${!rates[@]}"; do
    ip -n switch link add "bridge${k#0}" type bridge
    ip -n switch link set "bridge${k#0}" up
  done
  for ((i = 0; i < $1; i++)); do
    ip netns add "h$i"
    ip -n "h$i" link set lo up
    for k in "${!rates[@]}"; do make_interface "$i" "$k" "${rates[k]}" "${4:-16384}"; done
    on_host "$i" sh -c "echo '$3' >/proc/sys/net/ipv4/tcp_congestion_control" 2>/dev/null ||
      fail "-c '$3' is not among those that this system lets us use:" \
        "$(cat /proc/sys/net/ipv4/tcp_allowed_congestion_control 2>/dev/null)"
    printf '10.77.0.%d h%d\n' $((i + 1)) "$i"
  done >"$scratch/hosts"
  [[ ! -e /etc/hosts ]] || mount --bind "$scratch/hosts" /etc/hosts  # MPI looks up names
}

# make_interface HOST NUMBER MBIT GSO: makes one interface. A link that was idle may send a burst at once. The burst
# must allow the largest packet that the network stack splits late (gso), and the bytes of the link in 100 us, because
# the timer may be that late. A larger burst would make the link faster than its rate. With small packets, short
# messages travel as on a real link. Large packets leave the cores to the programs, because here the cores time each
# packet, not a network card.
make_interface() {
  local end gso=$4 name=eth$2 port=port$1
  (($2 == 0)) || port+=-$2
  (($3 <= 1000)) || gso=65536
  local link=(mtu 1500 gso_max_size "$gso")
  ip link add "$name" "${link[@]}" netns "h$1" type veth peer name "$port" "${link[@]}" netns switch
  ip -n "h$1" addr add "10.77.$2.$(($1 + 1))/24" dev "$name"
  ip -n "h$1" link set "$name" up
  ip -n switch link set "$port" master "bridge${2#0}" up
  for end in "h$1 $name" "switch $port"; do
    tc -n "${end% *}" qdisc add dev "${end#* }" root tbf rate "$3mbit" burst $((gso + $3 * 25 / 2)) limit 2mb
  done
}

# limit_connections MBIT LINK_MBIT: limits the rate of each connection between hosts 0 and 1, as clouds do. Host 1
# connects, and four bits of its port distinguish the connections; two connections with equal bits share one limit.
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

# on_host I COMMAND...: runs the command on host I.
on_host() {
  nsenter --net="/run/netns/h$1" unshare --uts sh -c 'hostname "$0" && exec "$@"' "h$1" "${@:2}"
}

# ranks_on_hosts COUNTS COMMAND...: runs the command as ranks. COUNTS has the number of ranks on each host: "3 2 1". Our
# ranks find each other through a server on the first host.
ranks_on_hosts() {
  local count rank=0 ranks=() server code=0
  local -i host=0 world=${1// /+}
  for count in $1; do
    [[ -e /run/netns/h$host ]] || fail "ranks cannot start on '$1': there is no host h$host"
    host+=1
  done
  host=0
  # exec replaces the subshell, so that ending it ends the program.
  (exec nsenter --net=/run/netns/h0 "$anello" rendezvous --listen 10.77.0.1 --port 4711 --secret-file "$scratch/secret") \
    >/dev/null &
  server=$!
  for count in $1; do
    for ((; count > 0; count--, rank++)); do
      on_host "$host" env ANELLO_RANK="$rank" ANELLO_SIZE="$world" ANELLO_RENDEZVOUS=10.77.0.1:4711 \
        ANELLO_SECRET_FILE="$scratch/secret" "${@:2}" &
      ranks+=($!)
    done
    host+=1
  done
  for rank in "${ranks[@]}"; do wait "$rank" || code=$?; done
  kill "$server"
  wait
  return "$code"
}
