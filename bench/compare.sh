#!/usr/bin/env bash
# Our allreduce beside its peers', each in its best algorithm: the same timing loop, the same machine, round after round
# in turn, because a machine's own speed changes by more than they differ. Only the ratios within a round mean anything.
set -euo pipefail
source "$(dirname -- "${BASH_SOURCE[0]}")/programs.sh"

ranks=2 sizes=64M rounds=11 json=
usage() {
  cat <<TEXT
usage: bench/compare.sh [-n RANKS] [-s SIZES] [-r ROUNDS] [-o FILE] [-B DIR]
  -n RANKS   on this machine ($ranks)
  -s SIZES   list of sizes such as 4,64K,64M ($sizes)
  -r ROUNDS  in each, everybody runs once ($rounds)
  -o FILE    also write the results as JSON
  -B DIR     where the programs are (the release build, which is made if it is not there, or PATH)
TEXT
}

arguments=("$@")
while getopts :n:s:r:o:B:h option; do
  case $option in
    n) ranks=$(whole -n "$OPTARG") ;;
    s) sizes=$OPTARG ;;
    r) rounds=$(whole -r "$OPTARG") ;;
    o) json=$OPTARG ;;
    B) bin=$OPTARG ;;
    h) usage && exit ;;
    *) usage >&2 && exit 2 ;;
  esac
done
((OPTIND > $#)) || fail "'${!OPTIND}' is no option"
[[ $sizes =~ ^[0-9]+[KMGkmg]?(,[0-9]+[KMGkmg]?)*$ ]] || fail "-s '$sizes' is not a list of sizes such as 4,64K,64M"
IFS=, read -ra sizes <<<"$sizes"
[[ -z $json ]] || : >"$json" || fail "-o $json cannot be written"

# Peers take the system's TCP congestion control, and one that paces (BBR) slows them on loopback for nothing. So all
# run in a network of their own, where that is reno, if this system lets us make one.
own_network='ip link set lo up && echo reno >/proc/sys/net/ipv4/tcp_congestion_control'
if [[ -z ${ANELLO_COMPARE_NETWORK-} ]]; then
  export ANELLO_COMPARE_NETWORK=system
  for unshare in 'unshare -n' 'unshare -rn'; do
    $unshare bash -c "$own_network" 2>/dev/null || continue
    ANELLO_COMPARE_NETWORK=own
    break
  done
  [[ $ANELLO_COMPARE_NETWORK == system ]] || exec $unshare bash -c "$own_network"' && exec "$@"' -- "$0" "${arguments[@]}"
fi

if [[ -z $bin ]] && ! { find_program anello && find_program anello-bench; } >/dev/null; then
  (source "$bench_root/ring/cmake/prepare.sh" && build release --)
fi
anello=$(need_program anello)
ours=$(need_program anello-bench)

# Contenders: "peer algorithm". A peer that joins needs a line here, and its command in run().
contenders=()
if find_program anello-bench-gloo >/dev/null; then
  for algorithm in ring ring_chunked halving_doubling bcube; do contenders+=("gloo $algorithm"); done
else
  echo "gloo: not here; install it (Debian: apt-get install libgloo-dev) and build again"
fi

scratch=$(mktemp -d)
trap 'rm -rf -- "$scratch"' EXIT

# run SIZE CONTENDER: one program run; prints what each call took, "out-of-place in-place" in microseconds.
# While ranks have a core each that is the median of the slowest rank; when they share cores, wall time by calls.
column=5
((ranks <= $(nproc))) || column=10
run() {
  local size=$1 peer algorithm command
  read -r peer algorithm <<<"$2"
  case $peer in
    anello) command=("$ours" allreduce) ;;
    gloo)
      command=("$(find_program anello-bench-gloo)" --store "$(mktemp -d -p "$scratch")" --algorithm "$algorithm" allreduce)
      ;;
  esac
  timeout 300 "$anello" run -n "$ranks" -- "${command[@]}" -b "$size" >"$scratch/out" 2>&1 </dev/null || {
    tail -n 20 -- "$scratch/out" >&2
    fail "$2 failed at $size (see above)"
  }
  sed 's/^\[[^]]*\] *//' "$scratch/out" | awk -v column=$column '
    !/^#/ && NF == 16 { print $column, $(column + 6); found = 1 } END { exit !found }' ||
    fail "$2 printed no figures at $size"
}

# A short trial chooses each peer's algorithm for a size.
best_algorithm() {
  local size=$1 peer=$2 contender
  for contender in "${contenders[@]}"; do
    [[ $contender == "$peer "* ]] || continue
    printf '%s %s\n' "${contender#* }" "$(run "$size" "$contender")"
    printf '%s %s\n' "${contender#* }" "$(run "$size" "$contender")"
  done | awk '!($1 in least) || $2 < least[$1] { least[$1] = $2 }
    END { for (a in least) if (best == "" || least[a] < least[best]) best = a; print best }'
}

# Lines "size placement peer algorithm ours theirs": one a round.
measure_size() {
  local size=$1 peer entrant round entrants=() mine theirs
  for peer in $(printf '%s\n' "${contenders[@]%% *}" | sort -u); do
    entrants+=("$peer $(best_algorithm "$size" "$peer")")
  done
  for ((round = 0; round < rounds; round++)); do
    for entrant in "${entrants[@]}"; do
      if ((round % 2)); then mine=$(run "$size" anello); theirs=$(run "$size" "$entrant")
      else theirs=$(run "$size" "$entrant"); mine=$(run "$size" anello); fi
      printf '%s out-of-place %s %s %s\n' "$size" "$entrant" "${mine% *}" "${theirs% *}"
      printf '%s in-place %s %s %s\n' "$size" "$entrant" "${mine#* }" "${theirs#* }"
    done
  done
}

# From the lines of all rounds to medians: "size placement peer algorithm ours theirs ratio low high".
summarize() {
  awk "$awk_quantile"'
    { key = $1 " " $2 " " $3 " " $4
      if (!(key in count)) order[++keys] = key
      i = ++count[key]; ours[key, i] = $5; theirs[key, i] = $6; ratio[key, i] = $6 / $5 }
    function column(from, key,   i) { for (i = 1; i <= count[key]; i++) v[i] = from[key, i]; return count[key] }
    END { for (k = 1; k <= keys; k++) { key = order[k]
        n = column(ours, key); line = key " " quantile(v, n, 0.5)
        n = column(theirs, key); line = line " " quantile(v, n, 0.5)
        n = column(ratio, key); print line, quantile(v, n, 0.5), quantile(v, n, 0.25), quantile(v, n, 0.75) } }'
}

table() {
  awk 'BEGIN {
      printf "%8s %-13s %-22s %12s %12s %7s %15s\n",
        "size", "", "peer", "anello (us)", "peer (us)", "ratio", "half of rounds" }
    { printf "%8s %-13s %-22s %12.1f %12.1f %7.2f %7.2f - %5.2f\n", $1, $2, $3 " " $4, $5, $6, $7, $8, $9 }'
}

congestion=$(cat /proc/sys/net/ipv4/tcp_congestion_control)
to_json() {
  awk -v ranks="$ranks" -v rounds="$rounds" -v congestion="$congestion" -v cores="$(nproc)" \
    -v statistic="$([[ $column == 5 ]] && echo p50_us || echo mean_us)" '
    function text(name, value) { return "\"" name "\":\"" value "\"" }
    function number(name, value) { return "\"" name "\":" value }
    BEGIN {
      printf "{\"config\":{%s,%s,%s,%s,%s},\"results\":[", number("world", ranks), number("rounds", rounds),
        number("cores", cores), text("congestion", congestion), text("statistic", statistic) }
    { printf "%s\n{%s,%s,%s,%s,%s,%s,%s,\"ratio_quartiles\":[%s,%s]}", (NR > 1 ? "," : ""), text("size", $1),
        text("placement", $2), text("peer", $3), text("algorithm", $4), number("anello_us", $5),
        number("peer_us", $6), number("ratio", $7), $8, $9 }
    END { print "\n]}" }'
}

((${#contenders[@]} > 0)) || fail "no peer is here to compare with"
echo "$ranks ranks on $(nproc) cores, float sum over TCP ($ANELLO_COMPARE_NETWORK network, congestion control $congestion)," \
  "$rounds rounds; ratio = peer / anello, above 1 anello is faster"
[[ $congestion != bbr ]] || echo "careful: $congestion paces the peers on loopback; run this where 'unshare -n' works"
for size in "${sizes[@]}"; do measure_size "$size"; done >"$scratch/rounds"
summarize <"$scratch/rounds" >"$scratch/summary"
table <"$scratch/summary"
[[ -z $json ]] || to_json <"$scratch/summary" >"$json"
