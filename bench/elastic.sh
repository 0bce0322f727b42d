#!/usr/bin/env bash
# Measures how a training goes on when a rank is killed or stopped, or another one joins: with Anello and with other
# libraries, in turn, on this machine, by the same model and data. Prints a table in Markdown.
set -euo pipefail
source "$(dirname -- "${BASH_SOURCE[0]}")/programs.sh"
source "$bench_root/bench/environments.sh"

rounds=5 limit=80 wanted=anello,anello-horovod,horovod,torchrun,torchft,pypccl more=() own=2,4,8
usage() {
  cat <<TEXT
usage: bench/elastic.sh [--quick] [--alone] [-r ROUNDS] [-p LIBRARIES] [-o FILE] [-k DIR]
  --quick       one round, at most 50 s for each event (8 min)
  --alone       instead: what only Anello promises (alone.py says which)
  -r ROUNDS     in each, all events disturb jobs of all libraries ($rounds)
  -p LIBRARIES  only these ($wanted)
  -o FILE       also writes all figures to FILE, as JSON
  -k DIR        keeps what the ranks and launchers wrote
The libraries are installed in build/elastic and build/torch. Horovod is compiled, which takes 4 minutes.
TEXT
}

alone='' short=()
for word; do
  case $word in
    --quick) rounds=1 limit=50 own=4 ;;
    --alone) alone=1 ;;
    *) short+=("$word") ;;
  esac
done
set -- "${short[@]}"
while getopts :r:p:o:k:h option; do
  case $option in
    r) rounds=$(whole -r "$OPTARG") ;;
    p) wanted=$OPTARG ;;
    o) out=$OPTARG ;;
    k) kept=$OPTARG ;;
    h) usage && exit ;;
    *) usage >&2 && exit 2 ;;
  esac
done
((OPTIND > $#)) || fail "unknown option '${!OPTIND}'"
need_program anello >/dev/null
cd -- "$bench_root"

# NAME_missing prints why the library cannot run, and nothing if it can run.
anello_missing() { :; }
anello-horovod_missing() { :; }
torchrun_missing() { :; }
torchft_missing() { beside_torch elastic/torchft ../../bench/elastic/torchft.txt || echo "could not be installed"; }
# Its library is for Python 3.12, glibc 2.38 and a GPU's driver; the Python in it runs with 3.11.
pypccl_missing() {
  local wheel=(build/elastic/pypccl/*.whl)
  [[ -e ${wheel[0]} ]] || /usr/bin/python3 -m pip download --quiet --no-deps --only-binary :all: --python-version 3.12 \
    --platform manylinux_2_17_x86_64 --dest build/elastic/pypccl pypccl==1.0.0 >&2 || { echo "could not be downloaded" && return; }
  python3 -m zipfile -e build/elastic/pypccl/*.whl build/elastic/pypccl
  ldd build/elastic/pypccl/pccl/libpccl.so 2>&1 | grep -o "version .* not found\|lib.* => not found" | paste -sd ';' ||
    echo "nobody has written its training yet"
}

torch_installed || fail "PyTorch could not be installed in build/torch"
python=build/torch/bin/python
[[ -z ${out-} ]] || more+=(--json "$out")
[[ -z ${kept-} ]] || more+=(--keep "$kept")
if [[ -n $alone ]]; then
  ((rounds > 1)) || more+=(--quick)
  exec "$python" bench/elastic/alone.py "${more[@]}"
fi
libraries=()
for library in ${wanted//,/ }; do
  declare -F "${library}_missing" >/dev/null || fail "-p '$library' is not one of anello, anello-horovod, horovod, torchrun, torchft, pypccl"
  missing=$("${library}_missing")
  if [[ -z $missing ]]; then libraries+=("$library"); else more+=(--missing "$library: $missing"); fi
done
exec "$python" bench/elastic/compare.py --libraries "$(IFS=, && echo "${libraries[*]}")" --rounds "$rounds" --limit "$limit" \
  --own-sizes "$own" "${more[@]}"
