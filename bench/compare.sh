#!/usr/bin/env bash
# Compares our allreduce with that of other libraries ("peers"), each with its fastest algorithm, in the same timing
# loop on the same machine. Our runs alternate with those of the peers, because the speed of a machine changes by more
# than the libraries differ. Only the ratio within such a pair of runs is meaningful.
set -euo pipefail
source "$(dirname -- "${BASH_SOURCE[0]}")/programs.sh"
source "$bench_root/bench/contenders.sh"
source "$bench_root/bench/pairs.sh"
source "$bench_root/bench/summary.sh"

worlds=2 sizes=4,1K,8K,64K,256K,1M,4M,16M,64M rounds=5 transport=tcp budget_ms=60 wanted='' json='' picture=''
our_flags=()
usage() {
  cat <<TEXT
usage: bench/compare.sh [-n WORLDS] [-s SIZES] [-r ROUNDS] [-t tcp|any] [-p PEERS] [-m MS] [-a] [-o FILE] [-g FILE]
                        [-B DIR]
  -n WORLDS  list of numbers of ranks on this machine ($worlds)
  -s SIZES   list of sizes such as 4,64K,64M ($sizes)
  -r ROUNDS  in each, every peer runs once with each algorithm that may be its best, next to ours ($rounds)
  -t WHICH   tcp: TCP against TCP; any: best against best, including shared memory ($transport)
  -p PEERS   only these of ${peers[*]} (all that are here)
  -m MS      time of the calls of one size, which are at least three ($budget_ms)
  -a         our tensors in memory from anello::allocate
  -o FILE    also write the results as JSON
  -g FILE    also draw the ratios, as SVG
  -B DIR     where the programs are (the release build, which is built if it does not exist, or PATH)
TEXT
}

arguments=("$@")
while getopts :n:s:r:t:p:m:ao:g:B:h option; do
  case $option in
    n) worlds=$OPTARG ;;
    s) sizes=$OPTARG ;;
    r) rounds=$(whole -r "$OPTARG") ;;
    t) transport=$OPTARG ;;
    p) wanted=$OPTARG ;;
    m) budget_ms=$(whole -m "$OPTARG") ;;
    a) our_flags=(--allocate) ;;
    o) json=$OPTARG ;;
    g) picture=$OPTARG ;;
    B) bin=$OPTARG ;;
    h) usage && exit ;;
    *) usage >&2 && exit 2 ;;
  esac
done
((OPTIND > $#)) || fail "unknown option '${!OPTIND}'"
[[ $worlds =~ ^[1-9][0-9]{0,3}(,[1-9][0-9]{0,3})*$ ]] || fail "-n '$worlds' is not a list of numbers such as 2,4,8"
[[ $transport == tcp || $transport == any ]] || fail "-t must be tcp or any, not '$transport'"
known_peers "$wanted"
sizes=$(bytes_of -s "$sizes")
for file in "$json" "$picture"; do
  [[ -z $file ]] || : >"$file" || fail "$file cannot be written"
done

# Peers use the system's TCP congestion control. An algorithm with pacing (BBR) slows them down on loopback. So all
# programs run in a network namespace with reno, if this system allows such a namespace.
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
  (source "$bench_root/.ci/prepare.sh" && build release --)
fi
anello=$(need_program anello)
ours=$(need_program anello-bench)
sentinel=$(need_program anello-bench-sentinel)
cores=$(nproc) mean_above=$cores

scratch=$(mktemp -d)
trap 'rm -rf -- "$scratch"' EXIT

congestion=$(cat /proc/sys/net/ipv4/tcp_congestion_control)
echo "float sum on $cores cores, ${transport/any/any transport} ($ANELLO_COMPARE_NETWORK network, congestion control $congestion)," \
  "$rounds rounds; ratio = peer / anello, above 1 anello is faster; * best peer"
[[ $congestion != bbr ]] || echo "careful: $congestion paces the peers on loopback; run this where 'unshare -n' works"
warn_if_busy
for world in ${worlds//,/ }; do measure_world "$wanted"; done
summarize <"$scratch/pairs" >"$scratch/summary"
table <"$scratch/summary"
awk '!$1 { moved++ } END { printf "\n%d of %d pairs were not steady (a cache line took another way between cores, " \
  "or the machine was busy) and left out\n", moved, NR }' "$scratch/states"
versions=$(sort -u "$scratch/versions" | awk '{ name = $1; $1 = ""; print name ":" $0 }' | paste -sd ';' | sed 's/;/; /g')
printf 'versions: %s\n' "$versions"
[[ -z $json ]] || to_json "\"machine\":\"$(machine)\",\"transport\":\"$transport\",\"rounds\":$rounds,\"cores\":$cores,\"budget_ms\":$budget_ms,\"congestion\":\"$congestion\",\"versions\":\"$versions\"" \
  <"$scratch/summary" >"$json"
[[ -z $picture ]] || plot "$scratch/summary" "$picture"
