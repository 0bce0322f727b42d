#!/usr/bin/env bash
# Measures how long ranks wait on busy cores: a step of small allreduces while threads of each rank compute, as data
# loaders do. Runs it in turn with our named operations and with other libraries, with two ranks that are not bound to
# cores of this machine.
set -euo pipefail
source "$(dirname -- "${BASH_SOURCE[0]}")/programs.sh"
source "$bench_root/bench/contenders.sh"

our_flags=() threads=0,1,4,8 nices=5 transports=tcp,memory world=2 rounds=3 budget_ms=2000 wanted=''
usage() {
  cat <<TEXT
usage: bench/busy.sh [-c THREADS] [-i NICES] [-t TRANSPORTS] [-n RANKS] [-r ROUNDS] [-m MS] [-p PEERS] [-B DIR]
  -c THREADS     list of numbers of threads that compute in each rank ($threads)
  -i NICES       list of their nicenesses ($nices)
  -t TRANSPORTS  list of tcp and memory ($transports)
  -n RANKS       number of ranks ($world)
  -r ROUNDS      in each, every library runs once ($rounds)
  -m MS          time of the steps of a run ($budget_ms)
  -p PEERS       only these of openmpi gloo (those that are here)
  -B DIR         where the programs are (the release build, or PATH)
TEXT
}

while getopts :c:i:t:n:r:m:p:B:h option; do
  case $option in
    c) threads=$OPTARG ;;
    i) nices=$OPTARG ;;
    t) transports=$OPTARG ;;
    n) world=$(whole -n "$OPTARG") ;;
    r) rounds=$(whole -r "$OPTARG") ;;
    m) budget_ms=$(whole -m "$OPTARG") ;;
    p) wanted=$OPTARG ;;
    B) bin=$OPTARG ;;
    h) usage && exit ;;
    *) usage >&2 && exit 2 ;;
  esac
done
((OPTIND > $#)) || fail "unknown option '${!OPTIND}'"
for list in "-c $threads" "-i $nices"; do
  [[ ${list#* } =~ ^[0-9]{1,3}(,[0-9]{1,3})*$ ]] || fail "${list% *} '${list#* }' is not a list of numbers such as 0,1,4"
done
[[ $transports =~ ^(tcp|memory)(,(tcp|memory))*$ ]] || fail "-t '$transports' is not a list of tcp and memory"
[[ $wanted =~ ^((openmpi|gloo)(,(openmpi|gloo))*)?$ ]] || fail "-p '$wanted' is not a list of openmpi and gloo"
anello=$(need_program anello)
ours=$(need_program anello-bench)
cores=$(nproc)
scratch=$(mktemp -d)
trap 'rm -rf -- "$scratch"' EXIT
export OMPI_MCA_hwloc_base_binding_policy=none  # all threads of a bound rank would share its one core

# Prints the contenders on a transport, as lines "peer algorithm calls". Gloo has only TCP and only blocking calls.
contenders_over() {
  echo anello auto blocking
  echo anello auto waiting
  echo anello auto looking
  wants openmpi && printf 'openmpi recursive_doubling %s\n' blocking waiting looking
  [[ $1 == memory ]] || ! wants gloo || echo gloo ring blocking
}
wants() {
  [[ -z $wanted || ,$wanted, == *",$1,"* ]] && [[ -z $("$1_missing") ]]
}

# measure WORK TRANSPORT FLAGS...: runs every contender `rounds` times in turn; prints a row for each, with medians over
# the rounds.
measure() {
  local work=$1 over=$2 round peer algorithm calls figures
  shift 2
  for ((round = 1; round <= rounds; round++)); do
    while read -r peer algorithm calls; do
      [[ $work != single || $calls == blocking ]] || continue
      figures=$(row_of "$peer" "$algorithm" 8 busy --calls "$calls" --budget_ms "$budget_ms" "$@")
      read -ra figures <<<"$figures"
      echo "$peer $calls ${figures[*]:4}"
    done < <(contenders_over "$over")
  done >"$scratch/rows"
  while read -r peer calls figures; do
    # shellcheck disable=SC2086
    printf '%-6s %-7s %7s %5s %-8s %-8s %10.1f %10.1f %10.1f %10.1f\n' "$over" "$work" "$count" "$nice" "$peer" "$calls" \
      $figures
  done < <(medians 2 <"$scratch/rows")
}

echo "step: 4 allreduces of 4 KiB; single: one of 1 KiB; $world ranks, $(machine); medians of $rounds rounds, microseconds"
printf '%-6s %-7s %7s %5s %-8s %-8s %10s %10s %10s %10s\n' over work threads nice library calls median p90 p99 worst
for over in ${transports//,/ }; do
  transport=${over/memory/any}
  for nice in ${nices//,/ }; do
    for count in ${threads//,/ }; do
      measure step "$over" --threads "$count" --nice "$nice" --tensors 4 -s 4K
      measure single "$over" --threads "$count" --nice "$nice" --tensors 1 -s 1K
    done
  done
done
