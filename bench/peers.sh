#!/usr/bin/env bash
# Compares our allreduce with the libraries of today: installs those of bench/peers/*.txt in build/peers, compiles the
# benchmark for each, lets compare.sh measure over TCP and through memory, and prints tables and draws pictures.
set -euo pipefail
source "$(dirname -- "${BASH_SOURCE[0]}")/programs.sh"

worlds=2,3,4,8 sizes=4,64,1K,8K,64K,256K,1M,4M,16M,64M rounds=3 budget_ms=60 kinds=tcp,memory,allocate
wanted=openmpi5,mpich5,impi,torch,horovod out=$bench_root/build/peers/results
usage() {
  cat <<TEXT
usage: bench/peers.sh [-n WORLDS] [-s SIZES] [-r ROUNDS] [-m MS] [-k KINDS] [-p PEERS] [-o FOLDER] [-B DIR]
  -n WORLDS  list of numbers of ranks on this machine ($worlds)
  -s SIZES   list of sizes ($sizes)
  -r ROUNDS  of compare.sh ($rounds)
  -m MS      time of the calls of one size, which are at least three ($budget_ms)
  -k KINDS   list of tcp, memory, and allocate: memory with our tensors from anello::allocate ($kinds)
  -p PEERS   only these ($wanted); torch and horovod only have TCP
  -o FOLDER  where the results and pictures are written (build/peers/results)
  -B DIR     where the programs are, and the peers in DIR/peers; nothing is installed and compiled then
Installs from PyPI: the MPIs take 0.5 GB, PyTorch 4 GB. Horovod is compiled, which takes 4 minutes.
TEXT
}

while getopts :n:s:r:m:k:p:o:B:h option; do
  case $option in
    n) worlds=$OPTARG ;;
    s) sizes=$OPTARG ;;
    r) rounds=$OPTARG ;;
    m) budget_ms=$OPTARG ;;
    k) kinds=$OPTARG ;;
    p) wanted=$OPTARG ;;
    o) out=$OPTARG ;;
    B) bin=$OPTARG ;;
    h) usage && exit ;;
    *) usage >&2 && exit 2 ;;
  esac
done
((OPTIND > $#)) || fail "unknown option '${!OPTIND}'"
[[ $kinds =~ ^(tcp|memory|allocate)(,(tcp|memory|allocate))*$ ]] || fail "-k '$kinds' is not a list of tcp, memory and allocate"
[[ $wanted =~ ^(openmpi5|mpich5|impi|torch|horovod)(,(openmpi5|mpich5|impi|torch|horovod))*$ ]] ||
  fail "-p '$wanted' is not a list of openmpi5, mpich5, impi, torch and horovod"
mkdir -p -- "$out" || fail "-o '$out' cannot be made"

# Installs one peer. Intel's wheel has no libfabric; Open MPI's has one.
install() {
  case $1 in
    torch) torch_installed ;;
    horovod) horovod_missing | (! grep .) ;;
    impi) install openmpi5 && installed peers/impi ../../bench/peers/impi.txt ;;
    *) installed "peers/$1" "../../bench/peers/$1.txt" ;;
  esac
}

if [[ -z $bin ]]; then
  source "$bench_root/bench/environments.sh"
  targets=(anello anello-bench anello-bench-sentinel)
  for peer in ${wanted//,/ }; do
    install "$peer" || fail "$peer could not be installed (see above); leave it out: -p"
    [[ $peer == torch || $peer == horovod ]] || targets+=(anello-bench{,-hello}-"$peer")
  done
  (source "$bench_root/.ci/prepare.sh" && build release -- "${targets[@]}")
fi

# compare KIND: measures with compare.sh.
compare() {
  local flags=(-t any) peers=$wanted
  case $1 in
    tcp) flags=(-t tcp) ;;
    allocate) flags+=(-a) ;;
  esac
  if [[ $1 != tcp ]]; then
    peers=$(tr , '\n' <<<"$wanted" | grep -vx 'torch\|horovod' | paste -sd ,) || return 0
  fi
  bash "$bench_root/bench/compare.sh" "${flags[@]}" ${bin:+-B "$bin"} -n "$worlds" -s "$sizes" -r "$rounds" -m "$budget_ms" \
    -p "$peers" -o "$out/$1.json"
}

files=()
for kind in ${kinds//,/ }; do
  compare "$kind"
  [[ ! -s $out/$kind.json ]] || files+=("$out/$kind.json")
done
for file in "${files[@]}"; do
  printf '\n%s\n' "$file"
  bash "$bench_root/bench/tables.sh" "$file"
done
bash "$bench_root/bench/pictures.sh" -d "$out" "${files[@]}"
