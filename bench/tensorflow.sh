#!/usr/bin/env bash
# Compares TensorFlow's operations and training steps through Anello and through Horovod over Gloo. Both run in turn in
# one environment, with two ranks on this machine's cores.
set -euo pipefail
source "$(dirname -- "${BASH_SOURCE[0]}")/programs.sh"

python=python3 rounds=5 seconds=1 libraries=anello,horovod
usage() {
  cat <<TEXT
usage: bench/tensorflow.sh [-P PYTHON] [-r ROUNDS] [-s SECONDS] [-p LIBRARIES] [-B DIR]
  -P PYTHON     of an environment with TensorFlow and Horovod, for example TensorFlow 2.15 and Horovod 0.28 ($python)
  -r ROUNDS     in each, both libraries run once ($rounds)
  -s SECONDS    for which each operation is measured in a run ($seconds)
  -p LIBRARIES  only one of these ($libraries)
  -B DIR        where the programs are (the release build, or PATH)
TEXT
}

while getopts :P:r:s:p:B:h option; do
  case $option in
    P) python=$OPTARG ;;
    r) rounds=$(whole -r "$OPTARG") ;;
    s) seconds=$(whole -s "$OPTARG") ;;
    p) libraries=$OPTARG ;;
    B) bin=$OPTARG ;;
    h) usage && exit ;;
    *) usage >&2 && exit 2 ;;
  esac
done
((OPTIND > $#)) || fail "unknown option '${!OPTIND}'"
[[ $libraries =~ ^(anello|horovod)(,(anello|horovod))?$ ]] || fail "-p '$libraries' is not one of anello and horovod"
anello=$(need_program anello)
python=$(command -v -- "$python") || fail "-P '$python' was not found"
for library in ${libraries//,/ }; do
  [[ $library == anello ]] || "$python" -c 'import horovod.tensorflow' || fail "$python has no Horovod for its TensorFlow"
done
scratch=$(mktemp -d)
trap 'rm -rf -- "$scratch"' EXIT
export PYTHONPATH=${PYTHONPATH-$bench_root/build/release/python}
# `anello run` sets the same number; horovodrun lets each rank use all cores.
threads=$(($(nproc) > 1 ? $(nproc) / 2 : 1))
export TF_NUM_INTEROP_THREADS=${TF_NUM_INTEROP_THREADS-$threads} TF_NUM_INTRAOP_THREADS=${TF_NUM_INTRAOP_THREADS-$threads}

launch_anello() { "$anello" run --no-prefix -n 2 -- "$@"; }
launch_horovod() { "$python" -m horovod.runner.launch --gloo -np 2 "$@"; }

# run LIBRARY: prints "library name microseconds".
run() {
  "launch_$1" "$python" "$bench_root/bench/tensorflow_training.py" "$1" --seconds "$seconds" \
    >"$scratch/out" 2>"$scratch/errors" </dev/null || {
    tail -n 20 -- "$scratch/errors" >&2
    fail "$1 failed (see above)"
  }
  sed 's/^\[[^]]*\]<[a-z]*>: *//' "$scratch/out" | awk -v library="$1" 'NF == 2 && /[0-9]$/ { print library, $0; found++ } END { exit !found }' ||
    fail "$1 did not print figures"
}

for ((round = 1; round <= rounds; round++)); do
  for library in ${libraries//,/ }; do run "$library" >>"$scratch/times"; done
done
echo "2 ranks, $(machine); medians of $rounds rounds, microseconds; horovod / anello: above 1 anello is faster"
awk "$awk_quantile"'
  { if (!($2 in seen)) { seen[$2] = 1; order[++names] = $2 }
    value[$1, $2, ++count[$1, $2]] = $3 }
  function middle(library, name,   all, n) {
    for (n = 1; n <= count[library, name]; n++) all[n] = value[library, name, n]
    return count[library, name] ? quantile(all, count[library, name], 0.5) : 0
  }
  END {
    printf "%-18s %12s %12s %18s\n", "", "anello", "horovod", "horovod / anello"
    for (k = 1; k <= names; k++) {
      name = order[k]; ours = middle("anello", name); theirs = middle("horovod", name)
      printf "%-18s %12.1f %12.1f %18s\n", name, ours, theirs, ours && theirs ? sprintf("%.2f", theirs / ours) : "-"
    }
  }' "$scratch/times"
