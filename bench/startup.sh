#!/usr/bin/env bash
# Measures how long a world of ranks takes from the start of the command to its end. Runs on this machine beside Open
# MPI, MPICH and torchrun; with --hosts on the three hosts of tests/cluster/cluster.sh, also beside srun. The program
# joins, waits once for all ranks and leaves: MPI's launchers start a program that uses MPI, the other launchers one
# that uses Anello. The launchers run in turn, so that all of them meet the same state of the machine.
set -euo pipefail
source "$(dirname -- "${BASH_SOURCE[0]}")/programs.sh"
source "$bench_root/bench/contenders.sh"

worlds=8,16,32,64 rounds=5 hosts=()
usage() {
  cat <<TEXT
usage: bench/startup.sh [--hosts] [-n 8,16,32,64] [-r ROUNDS] [-B DIR]
  --hosts    on three hosts, which are namespaces of this machine; needs root
  -n LIST    numbers of ranks ($worlds); with --hosts on each host
  -r ROUNDS  runs of each ($rounds), of which the medians are shown
  -B DIR     where the programs are (the release build, or PATH)
TEXT
}

arguments=("$@") short=()
for word; do
  if [[ $word == --hosts ]]; then hosts=(h0 h1 h2) worlds=1,8; else short+=("$word"); fi
done
set -- "${short[@]}"
while getopts :n:r:B:h option; do
  case $option in
    n) worlds=$OPTARG ;;
    r) rounds=$(whole -r "$OPTARG") ;;
    B) bin=$OPTARG ;;
    h) usage && exit ;;
    *) usage >&2 && exit 2 ;;
  esac
done
[[ $worlds =~ ^[1-9][0-9]{0,3}(,[1-9][0-9]{0,3})*$ ]] || fail "-n '$worlds' is not a list of numbers such as 8,16"
IFS=, read -ra worlds <<<"$worlds"
anello=$(need_program anello)
hello=$(need_program anello-bench-hello)
if ((${#hosts[@]} > 0)) && [[ -z ${CLUSTER-} ]]; then
  ((EUID == 0)) || fail "--hosts needs root, to make namespaces"
  exec bash "$bench_root/tests/cluster/cluster.sh" "$(dirname -- "$anello"):$(dirname -- "$hello")" \
    bash "$bench_root/bench/startup.sh" "${arguments[@]}"
fi

scratch=$(mktemp -d)
trap 'rm -rf -- "$scratch"' EXIT

programs=(anello)
today=(openmpi5 mpich5 impi)
((${#hosts[@]} == 0)) || today=()  # their launchers are not set up for several hosts here
for peer in openmpi mpich "${today[@]}"; do
  if find_program "anello-bench-hello-$peer" >/dev/null && "${peer}_launcher" >/dev/null; then
    programs+=("$peer")
  else
    printf '%s: left out: ' "$peer"
    case $peer in
      openmpi) get_it libopenmpi-dev openmpi-bin ;;
      mpich) get_it libmpich-dev mpich ;;
      *) echo "not here; install it: bash bench/peers.sh" ;;
    esac
  fi
done
if command -v torchrun >/dev/null; then programs+=(torchrun); else echo "torchrun: left out: $(get_it python3-torch)"; fi

# Debian's torchrun 1.13 fails with Python 3.11 unless some rank's output goes to a file.
torchrun=(env PET_REDIRECTS=9:1 PET_TEE=9:1 torchrun --no_python)

# command_here PROGRAM RANKS: sets `command`, which starts RANKS ranks on this machine.
command_here() {
  case $1 in
    anello) command=("$anello" run -n "$2" -- "$hello") ;;
    openmpi | openmpi5)
      command=("$("$1_launcher")" --oversubscribe --mca mpi_yield_when_idle 1 -n "$2")
      ((EUID != 0)) || command+=(--allow-run-as-root)
      command+=("$(find_program "anello-bench-hello-$1")")
      ;;
    mpich | mpich5) command=("$("$1_launcher")" -n "$2" "$(find_program "anello-bench-hello-$1")") ;;
    impi)
      mapfile -t command < <(impi_environment)
      command=(env "${command[@]}" "$(impi_launcher)" -n "$2" "$(find_program anello-bench-hello-impi)")
      ;;
    torchrun) command=("${torchrun[@]}" --standalone --nproc_per_node="$2" "$hello") ;;
  esac
}

# command_on_hosts PROGRAM RANKS: sets `command`, which starts RANKS ranks on each host. The programs are at the same
# paths on all hosts, and MPI's launchers need ssh, which does not pass PATH on. Processes are waited for by their ids,
# because `wait -n` of bash 5.2 returns 127 for a process that ended together with another one.
command_on_hosts() {
  local all=$((${#hosts[@]} * $2)) list
  list=$(printf ",%s:$2" "${hosts[@]}")
  case $1 in
    anello) command=(anello run -H "${list#,}" -n "$all" -- anello-bench-hello) ;;
    openmpi)
      command=("$(openmpi_launcher)" --oversubscribe --mca mpi_yield_when_idle 1 --allow-run-as-root
        --mca btl_tcp_if_include eth0 -H "${list#,}" -n "$all" "$(type -P anello-bench-hello-openmpi)")
      ;;
    mpich) command=("$(mpich_launcher)" -hosts "${list#,}" -n "$all" anello-bench-hello-mpich) ;;
    srun) command=(srun --overcommit -N "${#hosts[@]}" -n "$all" anello-bench-hello) ;;
    torchrun)
      command=(bash -c 'hosts=$1 started=() && shift
        for host in $hosts; do ssh "$host" PET_NODE_RANK="${#started[@]}" "$@" & started+=($!); done
        for process in "${started[@]}"; do wait "$process" || exit; done' bash "${hosts[*]}" "${torchrun[@]}"
        --nnodes="${#hosts[@]}" --nproc_per_node="$2" --master_addr="${hosts[0]}" --master_port=29500
        "$(type -P anello-bench-hello)")
      ;;
  esac
  command=("$CLUSTER/on_host" 0 "${command[@]}")
}

if ((${#hosts[@]} > 0)); then
  programs+=(srun)
  export ANELLO_REPRODUCIBLE=1  # the hosts' sshd sets the same value
  "$CLUSTER/on_host" 0 anello secret >/dev/null
fi

launch() {
  local command
  if ((${#hosts[@]} > 0)); then command_on_hosts "$@"; else command_here "$@"; fi
  "${command[@]}"
}

# run PROGRAM RANKS: adds "program ranks wall cpu", in seconds, to the figures.
run() {
  local TIMEFORMAT='%R %U %S' figures
  figures=$({ time launch "$1" "$2" >"$scratch/out" 2>&1 </dev/null; } 2>&1) || {
    tail -n 20 -- "$scratch/out" >&2
    fail "$1 failed with $2 ranks (see above)"
  }
  awk -v program="$1" -v ranks="$2" '{ print program, ranks, $1, $2 + $3 }' <<<"$figures" >>"$scratch/figures"
}

table() {
  awk -v programs="${programs[*]}" -v worlds="${worlds[*]}" "$awk_quantile"'
    function median(program, ranks, column,   k, n, v) {
      for (k = 1; k <= runs[program, ranks]; k++) v[k] = figure[program, ranks, column, k]
      return quantile(v, runs[program, ranks], 0.5)
    }
    { n = ++runs[$1, $2]; figure[$1, $2, "wall", n] = $3; figure[$1, $2, "cpu", n] = $4 }
    END {
      count = split(programs, program, " "); sizes = split(worlds, ranks, " ")
      printf "%6s", "ranks"
      for (p = 1; p <= count; p++) printf " %10s %7s%s", program[p], "CPU", (p > 1 ? "  ratio" : "")
      print ""
      for (w = 1; w <= sizes; w++) {
        printf "%6d", ranks[w]; ours = median(program[1], ranks[w], "wall")
        for (p = 1; p <= count; p++) {
          wall = median(program[p], ranks[w], "wall")
          printf " %8.2f s %5.2f s", wall, median(program[p], ranks[w], "cpu")
          if (p > 1) printf " %6.2f", (ours > 0 ? wall / ours : 0)
        }
        print ""
      }
    }' "$scratch/figures"
}

cpu=$(sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo | head -n 1)
printf 'from the command to its end, medians of %s runs; ratio: time beside anello (%s, %s cores)\n' \
  "$rounds" "${cpu:-unknown CPU}" "$(nproc)"
((${#hosts[@]} == 0)) || echo "ranks: on each of ${#hosts[@]} hosts; CPU: of the launcher, not of what it starts elsewhere"
for ranks in "${worlds[@]}"; do
  for ((round = 0; round < rounds; round++)); do
    for program in "${programs[@]}"; do run "$program" "$ranks"; done
  done
done
table
