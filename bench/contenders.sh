# The peers: what each needs, its algorithms, and how it is started. Sourced after programs.sh by scripts that set
# $world, $cores, $anello, $ours with $our_flags, $scratch, and $transport (tcp; any: the fastest transport of the peer;
# hosts: memory within a host, TCP between hosts). A peer NAME is three functions. NAME_missing prints why the peer
# cannot run and how to install it, and nothing if it can run. NAME_algorithms lists the algorithms that are worth a
# trial. NAME_command sets `command` to a program with anello-bench's flags.
# shellcheck shell=bash disable=SC2034,SC2154

peers=(openmpi mpich gloo torch openmpi5 mpich5 impi horovod)
only_tcp=(gloo torch horovod)  # these have no transport through memory

get_it() {
  echo "not here; install it (Debian: apt-get install $*) and build again: cmake --preset release &&" \
    "cmake --build build/release"
}

# known_peers LIST: fails if a name in the list is not a peer.
known_peers() {
  local peer
  for peer in ${1//,/ }; do
    [[ " ${peers[*]} " == *" $peer "* ]] || fail "-p '$peer' is not one of ${peers[*]}"
  done
}

# uses_tcp PEER: whether the peer's messages are TCP. Between hosts, both transports are used.
uses_tcp() {
  [[ $transport == tcp || " ${only_tcp[*]} " == *" $1 "* ]]
}

# Defines where the ranks run, and over which interface they communicate. Here all ranks are on this machine. Sets these
# arrays. `launched`: launches programs that read ANELLO_RANK and ANELLO_SIZE. `bound`: does this with ranks that are
# bound to cores, as Intel MPI does, and Open MPI if there are enough cores. `mpi_from`: runs MPI's launchers on their
# host. `openmpi_hosts` and `mpich_hosts`: flags that give the hosts to these launchers.
interface=lo
place_ranks() {
  launched=("$anello" run -n "$world" --) bound=("$anello" run --bind -n "$world" --) mpi_from=() openmpi_hosts=()
  mpich_hosts=()
}

# first_command NAME...: prints the first of these commands that is installed.
first_command() {
  local name
  for name; do command -v -- "$name" && return; done
  return 1
}

# Sets the command of our own program, which is in every table, on the same transport as the peers.
anello_command() {
  local ours_over=auto
  [[ $transport != tcp ]] || ours_over=tcp
  command=(env ANELLO_TRANSPORT="$ours_over" "${bound[@]}" "$ours" "${our_flags[@]}" "${collective:-allreduce}")
}

# of_today PEER: prints the folder where peers.sh installed the peer; with -B DIR, DIR/peers if it exists.
of_today() {
  if [[ -n $bin && -d $bin/peers ]]; then echo "$bin/peers/$1"; else echo "$bench_root/build/peers/$1"; fi
}
missing_of_today() {
  [[ $interface == lo ]] || { echo "left out between hosts: its launcher is not set up for them here" && return; }
  { find_program "anello-bench-$1" && [[ -x $(of_today "$1")/bin/mpiexec ]]; } >/dev/null ||
    echo "not here; install it: bash bench/peers.sh"
}

openmpi_launcher() { first_command mpirun.openmpi mpirun; }
openmpi_missing() {
  { find_program anello-bench-openmpi >/dev/null && [[ $("$(openmpi_launcher)" --version 2>/dev/null) == *Open* ]]; } ||
    get_it libopenmpi-dev openmpi-bin
}
openmpi_algorithms() {
  echo recursive_doubling ring segmented_ring rabenseifner
  # han is Open MPI's hierarchical algorithm; only its simple form does not crash between hosts (4.1.4). linear and
  # nonoverlapping gather on one rank. All of these may be faster if ranks share hosts.
  [[ $transport != hosts ]] || echo han linear nonoverlapping
}
openmpi_command() { open_mpi openmpi "$(openmpi_launcher)" vader "$1"; }

openmpi5_missing() { missing_of_today openmpi5; }
# Two algorithms for memory are sometimes faster than CMA: the module of collectives in memory (shared), and messages
# that both ranks copy (rabenseifner_copied).
openmpi5_algorithms() {
  openmpi_algorithms
  [[ $transport != any ]] || echo shared rabenseifner_copied
}
openmpi5_launcher() { echo "$(of_today openmpi5)/bin/mpirun"; }
openmpi5_command() { open_mpi openmpi5 "$(openmpi5_launcher)" sm "$1"; }

# open_mpi PEER LAUNCHER MEMORY ALGORITHM: sets `command`. MEMORY: this version's name of shared memory.
open_mpi() {
  local -A number=([linear]=1 [nonoverlapping]=2 [recursive_doubling]=3 [ring]=4 [segmented_ring]=5 [rabenseifner]=6)
  command=("${mpi_from[@]}" "$2" -n "$world" "${openmpi_hosts[@]}" --mca pml ob1)
  ((EUID != 0)) || command+=(--allow-run-as-root)
  ((world <= cores)) || command+=(--oversubscribe --mca mpi_yield_when_idle 1)
  case $transport in
    any) command+=(--mca btl "$3,self") ;;
    hosts) command+=(--mca btl "$3,tcp,self" --mca btl_tcp_if_include "$interface") ;;
    tcp) command+=(--mca btl 'tcp,self' --mca btl_tcp_if_include "$interface") ;;
  esac
  case $4 in
    shared) command+=(--mca coll_sm_priority 100) ;;
    *_copied) command+=(--mca smsc '^cma') ;;
  esac
  case ${4%_copied} in
    shared) ;;
    han) command+=(--mca coll_han_priority 100 --mca coll_han_use_simple_allreduce 1) ;;
    *) command+=(--mca coll_tuned_use_dynamic_rules 1 --mca coll_tuned_allreduce_algorithm "${number[${4%_copied}]}") ;;
  esac
  [[ $4 != segmented_ring ]] || command+=(--mca coll_tuned_allreduce_algorithm_segmentsize 1048576)
  command+=("$(find_program "anello-bench-$1")" allreduce)
}

mpich_launcher() { first_command mpiexec.mpich mpiexec.hydra mpiexec; }
mpich_missing() {
  if ! find_program anello-bench-mpich >/dev/null || ! mpich_launcher >/dev/null; then
    get_it libmpich-dev mpich
  else
    never_yields
  fi
}
never_yields() {
  ((world <= cores)) || echo "left out where ranks outnumber cores: it never yields, and collapses there"
}
# Over TCP, MPICH's own choice (auto) is always one of these two, so auto is left out.
mpich_algorithms() {
  [[ $transport == tcp ]] || echo auto
  echo recursive_doubling reduce_scatter_allgather
}
mpich_command() { mpich_of mpich "$(mpich_launcher)" "$1"; }

mpich5_missing() {
  local missing
  missing=$(missing_of_today mpich5)
  if [[ -n $missing ]]; then echo "$missing"; else never_yields; fi
}
mpich5_algorithms() {
  mpich_algorithms
  echo ring
}
mpich5_launcher() { echo "$(of_today mpich5)/bin/mpiexec"; }
# Its UCX finds no way over the loopback interface, so TCP is libfabric's. CMA is off by default, because some systems
# forbid it.
mpich5_command() {
  mpich_of mpich5 "$(mpich5_launcher)" "$1" MPIR_CVAR_CH4_NETMOD=ofi FI_TCP_IFACE="$interface" \
    MPIR_CVAR_CH4_CMA_ENABLE=1
}

# mpich_of PEER LAUNCHER ALGORITHM SETTINGS...: sets `command`. The algorithm is taken only if the device makes no choice.
mpich_of() {
  command=("${mpi_from[@]}" env "${@:4}")
  [[ $3 == auto ]] || command+=(MPIR_CVAR_ALLREDUCE_DEVICE_COLLECTIVE=0 MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM="$3")
  # Debian's MPICH uses UCX; other builds use libfabric.
  case $transport in
    hosts) command+=(UCX_TLS='tcp,sm,self' UCX_NET_DEVICES="$interface" FI_PROVIDER=tcp) ;;
    tcp) command+=(MPIR_CVAR_NOLOCAL=1 UCX_TLS='tcp,self' UCX_NET_DEVICES="$interface" FI_PROVIDER=tcp) ;;
  esac
  command+=("$2" -n "$world" "${mpich_hosts[@]}" "$(find_program "anello-bench-$1")" allreduce)
}

# Intel MPI. Its wheel has no libfabric, so it loads that of Open MPI. Without pt2pt, its collectives use memory even if
# its messages are TCP.
impi_missing() {
  local missing
  missing=$(missing_of_today impi)
  if [[ -n $missing ]]; then
    echo "$missing"
  elif ((world > cores)) && [[ $(chrt -p $$ 2>/dev/null) == *SCHED_FIFO* ]]; then
    echo "left out where ranks outnumber cores under chrt -f: it waits for ever; take chrt -r"
  fi
}
# The numbers are those of I_MPI_ADJUST_ALLREDUCE; later ones than 12 have no names in its manual.
impi_algorithms() {
  echo auto recursive_doubling rabenseifner shumilin_ring ring knomial number_13
  [[ $transport == tcp ]] || echo number_14 number_25
}
impi_launcher() { echo "$(of_today impi)/bin/mpiexec.hydra"; }
impi_environment() { printf '%s\n' "I_MPI_ROOT=$(of_today impi)" "I_MPI_OFI_LIBRARY=$(of_today openmpi5)/lib/openmpi/libfabric.so.1"; }
impi_command() {
  local -A number=([recursive_doubling]=1 [rabenseifner]=2 [shumilin_ring]=7 [ring]=8 [knomial]=9)
  local environment
  mapfile -t environment < <(impi_environment)
  command=(env "${environment[@]}")
  [[ $1 == auto ]] || command+=(I_MPI_ADJUST_ALLREDUCE="${number[$1]-${1#number_}}")
  ((world <= cores)) || command+=(I_MPI_THREAD_YIELD=2)
  case $transport in
    any) command+=(I_MPI_FABRICS=shm) ;;
    tcp) command+=(I_MPI_FABRICS=ofi I_MPI_COLL_INTRANODE=pt2pt FI_PROVIDER=tcp FI_TCP_IFACE="$interface") ;;
  esac
  command+=("$(impi_launcher)" -n "$world" "$(find_program anello-bench-impi)" allreduce)
}

gloo_missing() {
  find_program anello-bench-gloo >/dev/null || get_it libgloo-dev
}
gloo_algorithms() { echo ring ring_chunked halving_doubling bcube; }
gloo_command() {
  command=("${launched[@]}" "$(find_program anello-bench-gloo)"
    --store "$(mktemp -d -p "$scratch")" --interface "${interface%%,*}" --algorithm "$1" allreduce)
}

# Finds a Python with PyTorch: the first on PATH, that of tests/python/torch.txt, or the system's.
find_torch_python() {
  local python
  for python in python3 "$bench_root/build/torch/bin/python" /usr/bin/python3; do
    "$python" -c 'import torch.distributed' 2>/dev/null && echo "$python" && return
  done
  return 1
}
torch_missing() {
  find_torch_python >/dev/null ||
    echo "not here; install it (Debian: apt-get install python3-torch; or a virtual environment with torch, first on PATH)"
}
torch_algorithms() { echo gloo; }
torch_command() {
  command=(env GLOO_SOCKET_IFNAME="${interface%%,*}" "${launched[@]}" "${torch_python:=$(find_torch_python)}"
    "$bench_root/bench/torch_peer.py" --store "$(mktemp -d -p "$scratch")" --backend "$1" allreduce)
}

# Horovod's PyTorch operations over Gloo. Its thread looks for operations once in a millisecond (cycle), or always.
horovod_missing() {
  [[ $interface == lo ]] || { echo "left out between hosts: its launcher is not set up for them here" && return; }
  "$bench_root/build/elastic/horovod/bin/python" -c 'import horovod.torch' 2>/dev/null ||
    echo "not here; install it: bash bench/peers.sh"
}
horovod_algorithms() { echo cycle no_cycle; }
horovod_command() {
  local python=$bench_root/build/elastic/horovod/bin/python
  command=(env HOROVOD_GLOO_IFACE="$interface")
  [[ $1 == cycle ]] || command+=(HOROVOD_CYCLE_TIME=0)
  command+=("$python" -m horovod.runner.launch --gloo -np "$world" "$python"
    "$bench_root/bench/torch_peer.py" --library horovod allreduce)
}

# row_of PEER ALGORITHM COLUMNS SUBCOMMAND FLAGS...: runs another subcommand of the peer's program, without binding its
# ranks to cores. Prints the row of figures, which has so many columns.
row_of() {
  local peer=$1 algorithm=$2 columns=$3 subcommand=$4 command
  shift 4
  place_ranks
  bound=("${launched[@]}")
  "${peer}_command" "$algorithm"
  command[-1]=$subcommand
  timeout 300 "${command[@]}" "$@" >"$scratch/out" 2>&1 </dev/null || {
    tail -n 20 -- "$scratch/out" >&2
    fail "$peer failed (see above)"
  }
  sed 's/^\[[^]]*\] *//' "$scratch/out" |
    awk -v columns="$columns" '/^ *[0-9]/ && NF == columns { print; found++ } END { exit !found }' ||
    fail "$peer did not print figures"
}

# find_contenders WANTED: fills `contenders` with "peer algorithm" for the peers of the list WANTED (empty: all) that
# can run, and prints why the others cannot run.
find_contenders() {
  local peer missing algorithm
  contenders=()
  for peer in "${peers[@]}"; do
    [[ -z $1 || ,$1, == *",$peer,"* ]] || continue
    missing=$("${peer}_missing")
    if [[ -n $missing ]]; then echo "$peer: $missing"; continue; fi
    for algorithm in $("${peer}_algorithms"); do contenders+=("$peer $algorithm"); done
  done
}
