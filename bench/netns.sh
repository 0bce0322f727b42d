#!/usr/bin/env bash
# Compares our allreduce with its peers where the network is the limit. The hosts are network namespaces of this machine
# with links of a given rate, each with one or several ranks. Prints the ratios, and also how close we are to the time
# that the payload alone takes on a host's links: 2(h-1)/h x bytes / rate for h hosts. Headers at MTU 1500 add 4.5 % to
# that time. Other collectives are measured without peers.
# shellcheck disable=SC2034,SC2086
set -euo pipefail
source "$(dirname -- "${BASH_SOURCE[0]}")/programs.sh"
source "$bench_root/bench/hosts.sh"
source "$bench_root/bench/contenders.sh"
source "$bench_root/bench/pairs.sh"
source "$bench_root/bench/summary.sh"

worlds='' ranks_per_host=1 rate=1gbit rates=1000 sizes=64K,1M,16M,64M rounds=3 budget_ms=300 wanted='' json='' congestion=reno our_flags=()
connection_mbit='' collective=allreduce
usage() {
  cat <<TEXT
usage: bench/netns.sh [-n WORLDS] [-k RANKS] [-l RATES] [-s SIZES] [-r ROUNDS] [-p PEERS] [-m MS] [-c CONGESTION] [-f RATE]
                      [-a FLAGS] [-C COLLECTIVE] [-o FILE] [-B DIR]
  -n WORLDS  list of numbers of hosts (2,4)
  -k RANKS   on each host; with + on each in turn, 3+2+1; ranks of a host share memory ($ranks_per_host)
  -l RATES   of each host's link, each way: 100mbit, 1gbit, 10gbit; with + of several links, used together: 1gbit+1gbit
             ($rate)
  -s SIZES   list of sizes ($sizes)
  -r ROUNDS  in each, every peer runs once with each algorithm that may be its best, next to ours ($rounds)
  -p PEERS   only these of ${peers[*]} (all that are here), or none
  -m MS      time of the calls of one size, which are at least three ($budget_ms)
  -c NAME    TCP congestion control of the hosts ($congestion)
  -f RATE    limit for each connection, with 2 hosts
  -a FLAGS   of our program: '--wire bfloat16', '--list 1K' (a list of tensors of that size) or '--factors'
  -C NAME    allgather, reduce_scatter, broadcast or reduce, with -p none ($collective)
  -o FILE    also write the results as JSON
  -B DIR     where the programs are (the release build, or PATH)
TEXT
}

# mbit_of FLAG RATE: prints RATE in Mbit/s. FLAG names the option in the error for a wrong rate.
mbit_of() {
  [[ $2 =~ ^([1-9][0-9]{0,4})(m|g)bit$ ]] || fail "$1 '$2' is not a rate such as 100mbit or 10gbit"
  [[ ${BASH_REMATCH[2]} == m ]] && echo "${BASH_REMATCH[1]}" || echo $((BASH_REMATCH[1] * 1000))
}

# rates_of RATES: prints a list such as 1gbit+100mbit in Mbit/s: 1000+100.
rates_of() {
  local each mbit all=()
  [[ $1 =~ ^[^+]+(\+[^+]+){0,7}$ ]] || fail "-l '$1' is not a list of 1 to 8 rates such as 1gbit+1gbit"
  for each in ${1//+/ }; do
    mbit=$(mbit_of -l "$each") || exit
    all+=("$mbit")
  done
  (IFS=+ && echo "${all[*]}")
}

arguments=("$@")
while getopts :n:k:l:s:r:p:m:c:f:a:C:o:B:h option; do
  case $option in
    n) worlds=$OPTARG ;;
    k) ranks_per_host=$OPTARG ;;
    l) rate=$OPTARG rates=$(rates_of "$OPTARG") ;;
    s) sizes=$OPTARG ;;
    r) rounds=$(whole -r "$OPTARG") ;;
    p) wanted=$OPTARG ;;
    m) budget_ms=$(whole -m "$OPTARG") ;;
    c) congestion=$OPTARG ;;
    f) connection_mbit=$(mbit_of -f "$OPTARG") ;;
    a) read -ra our_flags <<<"$OPTARG" ;;
    C) collective=$OPTARG ;;
    o) json=$OPTARG ;;
    B) bin=$OPTARG ;;
    h) usage && exit ;;
    *) usage >&2 && exit 2 ;;
  esac
done
((OPTIND > $#)) || fail "unknown option '${!OPTIND}'"
[[ $ranks_per_host =~ ^[1-9][0-9]?(\+[1-9][0-9]?)*$ ]] ||
  fail "-k '$ranks_per_host' is not a number from 1 to 99, or a list of them such as 3+2+1"
IFS=+ read -ra uneven <<<"$ranks_per_host"
if ((${#uneven[@]} > 1)); then
  worlds=${worlds:-${#uneven[@]}}
  [[ $worlds == "${#uneven[@]}" ]] || fail "-k $ranks_per_host is a list of ${#uneven[@]} hosts, -n says $worlds"
fi
worlds=${worlds:-2,4}
[[ $worlds =~ ^([2-9]|[1-9][0-9])(,([2-9]|[1-9][0-9]))*$ ]] || fail "-n '$worlds' is not a list of numbers from 2 to 99"
[[ -z $connection_mbit || "$worlds $ranks_per_host ${rates/+*/+}" =~ ^"2 1 "[0-9]+$ ]] ||
  fail "-f needs -n 2, and one rank and one link on each host"
[[ $collective =~ ^(allreduce|allgather|reduce_scatter|broadcast|reduce)$ ]] ||
  fail "-C '$collective' is not allreduce, allgather, reduce_scatter, broadcast or reduce"
[[ $collective == allreduce || $wanted == none ]] || fail "-C $collective needs -p none: the peers' programs measure allreduce"
[[ $congestion =~ ^[a-z]+$ ]] || fail "-c must be the name of a congestion control such as reno, not '$congestion'"
[[ $wanted == none ]] || known_peers "$wanted"
sizes=$(bytes_of -s "$sizes")
[[ -z $json ]] || : >"$json" || fail "$json cannot be written"
anello=$(need_program anello)
ours=$(need_program anello-bench)
sentinel=$(need_program anello-bench-sentinel)
for tool in ip tc nsenter; do command -v "$tool" >/dev/null || fail "$tool is not here (Debian: iproute2, util-linux)"; done
[[ ${ANELLO_NETNS-} == inside ]] || enter_private_namespaces "$0" "${arguments[@]}"

scratch=$(mktemp -d)
trap 'rm -rf -- "$scratch"' EXIT
export anello scratch
export -f fail on_host ranks_on_hosts
cores=$(nproc) mean_above=0 transport=tcp
[[ $ranks_per_host == 1 ]] || transport=hosts
mapfile -t links < <(seq -f 'eth%g' 0 $(($(wc -w <<<"${rates//+/ }") - 1)))
interface=$(IFS=, && echo "${links[*]}")
iface=$(IFS=+ && echo "${links[*]}")
export ANELLO_IFACE=$iface
make_hosts "$(printf '%s\n' ${worlds//,/ } | sort -n | tail -n 1)" "$rates" "$congestion"
[[ -z $connection_mbit ]] || limit_connections "$connection_mbit" "$rates"
"$anello" secret "$scratch/secret" >/dev/null

# MPI's launchers reach the other hosts through this replacement for ssh.
{
  echo '#!/usr/bin/env bash'
  declare -f on_host
  echo 'while [[ $1 == -* ]]; do shift; done'
  echo 'on_host "${1#h}" bash -c "${*:2}"'
} >"$scratch/shell"
chmod +x "$scratch/shell"
place_ranks() {
  local hosts='' host=0 count
  for count in "${on_each[@]}"; do hosts+=,h$((host++)):$count; done
  hosts=${hosts#,}
  launched=(bash -c 'ranks_on_hosts "$@"' ranks_on_hosts "${on_each[*]}")
  # Our ranks cannot see that these hosts share the machine's cores, so ANELLO_SPIN=0 is set. Open MPI gets the same
  # information.
  ((world <= cores)) || launched=(env ANELLO_SPIN=0 "${launched[@]}")
  bound=("${launched[@]}")
  mpi_from=(bash -c 'on_host 0 "$@"' on_host)
  openmpi_hosts=(--host "$hosts" --mca plm_rsh_agent "$scratch/shell" --mca plm_rsh_no_tree_spawn 1
    --mca oob_tcp_if_include eth0 --bind-to none)
  mpich_hosts=(-launcher ssh -launcher-exec "$scratch/shell" -iface eth0 -hosts "$hosts")
}

# Measures without peers. Prints lines "world placement size - - 1 p50 mean p50 mean", as if we were our own peer. A
# broadcast has no out-of-place figures.
measure_alone() {
  local round
  for ((round = 1; round <= rounds; round++)); do
    run 'anello auto' "$sizes" --budget_ms "$budget_ms" |
      awk -v head="$world" '$3 != "N/A" { print head, $1, $2, "anello auto 1", $3, $4, $3, $4 }' >>"$scratch/pairs"
  done
}

share() {
  awk -v ranks="${on_each[*]}" -v collective="$collective" -v OFMT=%.15g "$awk_payload"'
    BEGIN {
      hosts = split(ranks, each, " ")
      for (i in each) { world += each[i]; min = min == 0 || each[i] < min ? each[i] : min }
      print payload(collective, hosts, min, world)
    }'
}

# Prints, from all pairs, our mean time divided by the time of the payload alone.
bound_table() {
  printf '\n%6s %-13s %10s %12s %12s %9s\n' ranks '' bytes 'payload (us)' 'anello (us)' times
  awk -v mbit="$((rates))" -v worlds="${share_of[*]}" "$awk_quantile"'
    BEGIN { for (i = split(worlds, list, " "); i > 1; i -= 2) share_of[list[i - 1]] = list[i] }
    { key = $1 " " $2 " " $3; taken[key, ++count[key]] = $8 }
    END { for (key in count) {
        for (i = 1; i <= count[key]; i++) v[i] = taken[key, i]
        split(key, part, " ")
        payload_us = share_of[part[1]] * part[3] * 8 / mbit
        us = quantile(v, count[key], 0.5)
        printf "%6d %-13s %10d %12.0f %12.0f %9.3f\n", part[1], part[2], part[3], payload_us, us, us / payload_us
      } }' | sort -k1,1n -k2,2 -k3,3n
}

echo "$collective of floats, $ranks_per_host rank(s) a host, links of $rate with MTU 1500, congestion control $congestion, $rounds rounds;" \
  "ratio = peer / anello, above 1 anello is faster; * best peer"
warn_if_busy
share_of=()  # elements: world share world share ...
for hosts in ${worlds//,/ }; do
  on_each=("${uneven[@]}")
  while ((${#on_each[@]} < hosts)); do on_each+=("$ranks_per_host"); done
  world=$(($(IFS=+ && echo "${on_each[*]}")))
  share_of+=("$world" "$(share)")
  if [[ $wanted == none ]]; then measure_alone; else measure_world "$wanted"; fi
done
summarize <"$scratch/pairs" >"$scratch/summary"
[[ $wanted == none ]] || table <"$scratch/summary"
bound_table <"$scratch/pairs"
[[ -z $json ]] || to_json "\"collective\":\"$collective\",\"machine\":\"$(machine)\",$(
  )\"rate_mbit\":$((rates)),\"links\":\"$rate\",\"ranks_per_host\":\"$ranks_per_host\",\"mtu\":1500,\"rounds\":$rounds,\"congestion\":\"$congestion\"" \
  <"$scratch/summary" >"$json"
