#!/usr/bin/env bash
# Measures what a rank costs beside the time of its operations: processor time while nobody has anything to do and while
# it waits for a late rank, memory, open files, threads, and context switches of small allreduces. Runs it in turn with
# Anello and with other libraries on this machine. Prints medians of means over the ranks.
set -euo pipefail
source "$(dirname -- "${BASH_SOURCE[0]}")/programs.sh"
source "$bench_root/bench/contenders.sh"

our_flags=() worlds=2,8 transports=memory,tcp rounds=3 wanted='' idle_ms=2000 operations=1000
usage() {
  cat <<TEXT
usage: bench/idle.sh [-n RANKS] [-t TRANSPORTS] [-r ROUNDS] [-m MS] [-k OPERATIONS] [-p PEERS] [-B DIR]
  -n RANKS       list of numbers of ranks ($worlds)
  -t TRANSPORTS  list of tcp and memory ($transports)
  -r ROUNDS      in each, every library runs once ($rounds)
  -m MS          how long nobody has anything to do ($idle_ms); ranks wait half as long for a late one
  -k OPERATIONS  allreduces of each size whose context switches are counted ($operations)
  -p PEERS       only these of ${peers[*]} (those that are here); torch is also measured with the backend anello
  -B DIR         where the programs are (the release build, or PATH)
TEXT
}

while getopts :n:t:r:m:k:p:B:h option; do
  case $option in
    n) worlds=$OPTARG ;;
    t) transports=$OPTARG ;;
    r) rounds=$(whole -r "$OPTARG") ;;
    m) idle_ms=$(whole -m "$OPTARG") ;;
    k) operations=$(whole -k "$OPTARG") ;;
    p) wanted=$OPTARG ;;
    B) bin=$OPTARG ;;
    h) usage && exit ;;
    *) usage >&2 && exit 2 ;;
  esac
done
((OPTIND > $#)) || fail "unknown option '${!OPTIND}'"
[[ $worlds =~ ^[1-9][0-9]{0,2}(,[1-9][0-9]{0,2})*$ ]] || fail "-n '$worlds' is not a list of numbers such as 2,8"
[[ $transports =~ ^(tcp|memory)(,(tcp|memory))*$ ]] || fail "-t '$transports' is not a list of tcp and memory"
known_peers "$wanted"
anello=$(need_program anello)
ours=$(need_program anello-bench)
cores=$(nproc)
scratch=$(mktemp -d)
trap 'rm -rf -- "$scratch"' EXIT
export OMPI_MCA_hwloc_base_binding_policy=none  # all threads of a bound rank would share its one core
export PYTHONPATH=$bench_root/build/release/python${PYTHONPATH:+:$PYTHONPATH}

# Sets `chosen` to lines "peer algorithm calls". `waiting` are our named operations, which have a thread of their own.
choose() {
  local contenders each
  chosen=('anello auto blocking' 'anello auto waiting')
  find_contenders "$wanted"
  for each in "${contenders[@]}"; do
    case "$each $over" in
      openmpi\ recursive_doubling\ * | mpich\ recursive_doubling\ * | gloo\ ring\ tcp) chosen+=("$each blocking") ;;
      torch\ gloo\ tcp) chosen+=('torch gloo blocking') ;;
    esac
    [[ $each != torch* ]] || ! "$(find_torch_python)" -c 'import anello.torch.distributed' 2>/dev/null ||
      chosen+=('torch anello blocking')
  done
}

# measure: runs everything that was chosen `rounds` times in turn, and prints medians over the rounds.
measure() {
  local round each peer algorithm calls figures
  for ((round = 1; round <= rounds; round++)); do
    for each in "${chosen[@]}"; do
      read -r peer algorithm calls <<<"$each"
      figures=$(ANELLO_TRANSPORT=${transport/any/auto} row_of "$peer" "$algorithm" 11 idle --calls "$calls" \
        --idle_ms "$idle_ms" --late_ms "$(((idle_ms + 1) / 2))" --operations "$operations")
      echo "$peer $algorithm $calls $figures"
    done
  done >"$scratch/rows"
  while read -r peer algorithm calls figures; do
    # shellcheck disable=SC2086
    printf '%5s %-6s %-8s %-18s %-8s %8.2f %9.2f %8.1f %8.1f %8.1f %6.0f %7.0f %8.2f %7.2f %8.2f %7.2f\n' "$world" "$over" \
      "$peer" "$algorithm" "$calls" $figures
  done < <(medians 3 <"$scratch/rows")
}

echo "a rank: processor time of a second, idle and waiting (ms); memory (MiB): resident, private, shared; open files;"
echo "threads; context switches of an allreduce, voluntary and not; $(machine); medians of $rounds rounds"
printf '%5s %-6s %-8s %-18s %-8s %8s %9s %8s %8s %8s %6s %7s %8s %7s %8s %7s\n' ranks over library algorithm calls idle \
  waiting resident private shared files threads '4 B' not '64 KiB' not
for world in ${worlds//,/ }; do
  for over in ${transports//,/ }; do
    transport=${over/memory/any}
    choose
    measure
  done
done
