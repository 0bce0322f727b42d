# The peers: what each needs, its algorithms, and how it is started. Sourced after programs.sh by scripts that set
# $world, $cores, $anello, $ours with $our_flags, $scratch, and $transport (tcp; any: the fastest transport of the peer;
# hosts: memory within a host, TCP between hosts). A peer NAME is three functions. NAME_missing prints why the peer
# cannot run and how to install it, and nothing if it can run. NAME_algorithms lists the algorithms that are worth a
# trial. NAME_command sets `command` to a program with anello-bench's flags.
# shellcheck shell=bash disable=SC2034,SC2154

peers=(openmpi mpich gloo torch)

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

# Defines where the ranks run, and over which interface they communicate. Here all ranks are on this machine. Sets these
# arrays. `launched`: launches programs that read ANELLO_RANK and ANELLO_SIZE. `bound`: does this with a core for each
# rank if there are enough cores, as Open MPI does. `mpi_from`: runs MPI's launchers on their host. `openmpi_hosts` and
# `mpich_hosts`: flags that give the hosts to these launchers.
interface=lo
place_ranks() {
  launched=("$anello" run -n "$world" --) bound=("${launched[@]}") mpi_from=() openmpi_hosts=() mpich_hosts=()
  ((world > cores)) || bound=("$anello" run --bind -n "$world" --)
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
openmpi_command() {
  local -A number=([linear]=1 [nonoverlapping]=2 [recursive_doubling]=3 [ring]=4 [segmented_ring]=5 [rabenseifner]=6)
  command=("${mpi_from[@]}" "$(openmpi_launcher)" -n "$world" "${openmpi_hosts[@]}" --mca pml ob1)
  ((EUID != 0)) || command+=(--allow-run-as-root)
  ((world <= cores)) || command+=(--oversubscribe --mca mpi_yield_when_idle 1)
  case $transport in
    any) command+=(--mca btl 'vader,self') ;;
    hosts) command+=(--mca btl 'vader,tcp,self' --mca btl_tcp_if_include "$interface") ;;
    tcp) command+=(--mca btl 'tcp,self' --mca btl_tcp_if_include "$interface") ;;
  esac
  case $1 in
    han) command+=(--mca coll_han_priority 100 --mca coll_han_use_simple_allreduce 1) ;;
    *) command+=(--mca coll_tuned_use_dynamic_rules 1 --mca coll_tuned_allreduce_algorithm "${number[$1]}") ;;
  esac
  [[ $1 != segmented_ring ]] || command+=(--mca coll_tuned_allreduce_algorithm_segmentsize 1048576)
  command+=("$(find_program anello-bench-openmpi)" allreduce)
}

mpich_launcher() { first_command mpiexec.mpich mpiexec.hydra mpiexec; }
mpich_missing() {
  if ! find_program anello-bench-mpich >/dev/null || ! mpich_launcher >/dev/null; then
    get_it libmpich-dev mpich
  elif ((world > cores)); then
    echo "left out where ranks outnumber cores: it never yields, and collapses there"
  fi
}
# Over TCP, MPICH's own choice (auto) is always one of these two, so auto is left out.
mpich_algorithms() {
  [[ $transport == tcp ]] || echo auto
  echo recursive_doubling reduce_scatter_allgather
}
mpich_command() {
  command=("${mpi_from[@]}" env MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM="$1")
  # Debian's MPICH uses UCX; other builds use libfabric.
  case $transport in
    hosts) command+=(UCX_TLS='tcp,sm,self' UCX_NET_DEVICES="$interface" FI_PROVIDER=tcp) ;;
    tcp) command+=(MPIR_CVAR_NOLOCAL=1 UCX_TLS='tcp,self' UCX_NET_DEVICES="$interface" FI_PROVIDER=tcp) ;;
  esac
  command+=("$(mpich_launcher)" -n "$world" "${mpich_hosts[@]}" "$(find_program anello-bench-mpich)" allreduce)
}

gloo_missing() {
  find_program anello-bench-gloo >/dev/null || get_it libgloo-dev
}
gloo_algorithms() { echo ring ring_chunked halving_doubling bcube; }
gloo_command() {
  command=("${launched[@]}" "$(find_program anello-bench-gloo)"
    --store "$(mktemp -d -p "$scratch")" --interface "${interface%%,*}" --algorithm "$1" allreduce)
}

# Finds the system's Python, because another python3 may be the first on PATH.
find_torch_python() {
  local python
  for python in python3 /usr/bin/python3; do
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
    "$bench_root/bench/torch_peer.py" --store "$(mktemp -d -p "$scratch")" allreduce)
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
