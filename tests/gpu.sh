#!/usr/bin/env bash
# Checks everything that needs a GPU, and prints a table of figures. Without arguments it uses build/gpu-pack if that is
# there, and else builds. --pack makes build/gpu-pack, for a machine that has a GPU but neither network nor our packages:
# the folder alone, under any name, is enough there (`bash gpu-pack/run.sh`). A pack of other sources than the present
# ones is refused, except with --old-pack. Every check has a limit and a log, which stays in $OUT or build/gpu-log.
set -euo pipefail
here=$(CDPATH='' cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd -P)
if [[ -f $here/stamp ]]; then
  # shellcheck source=../.ci/prepare.sh
  source "$here/prepare.sh"
  pack=$here torch_train=$here/torch_train.py torch_gpu=$here/torch_gpu.py
  torch_elastic=$here/torch_elastic.py python=$here/python logs=${OUT:-$here/log}
else
  source "$here/../.ci/prepare.sh"
  pack=$root/build/gpu-pack torch_train=$root/tests/gpu/torch_train.py torch_gpu=$root/tests/gpu/torch_gpu.py
  torch_elastic=$root/tests/gpu/torch_elastic.py python=$root/build/release/python logs=${OUT:-$root/build/gpu-log}
fi

programs=(rendezvous/anello trainer/anello-train bench/anello-bench tests/gpu/gpu_device_test tests/gpu/gpu_figures)
plugins=(gpu/libanello_gpu.so gpu/libanello_kernels.so)
most_pack_mib=80

build_all() {
  if command -v dpkg-query >/dev/null && [[ -n $(missing_packages "${engine_packages[@]}" "${program_packages[@]}" "${test_packages[@]}") ]] &&
    ! grep -qE '^[^[:space:]]+[[:space:]]00000000[[:space:]]' /proc/net/route; then
    fail "gpu: packages are missing here, and there is no network: make the pack elsewhere (--pack), and bring $pack"
  fi
  install_packages "bash tests/gpu.sh" "${engine_packages[@]}" "${program_packages[@]}" "${test_packages[@]}"
  build release -DANELLO_BUILD_TESTS=ON -DANELLO_CUDA=ON -- "${programs[@]##*/}" anello_gpu_plugin anello_kernels anello_python
}

# Lists the libraries of a program that the other machine may lack, without the C library and CUDA's own libraries.
foreign_libraries() {
  ldd "$@" | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | sort -u |
    grep -vE '/(libc|libm|libdl|libpthread|librt|ld-linux[^/]*|libcuda|libcublas|libcublasLt|libcudart|libnvidia[^/]*)\.so'
}

# Identifies the sources: the commit, and a hash of the changes since; nothing without git.
stamp_of_sources() {
  git -C "$root" rev-parse HEAD 2>/dev/null || return 0
  git -C "$root" diff HEAD | sha256sum | cut -c 1-16
}

make_pack() {
  build_all
  rm -rf -- "$pack"
  mkdir -p -- "$pack/bin" "$pack/gpu" "$pack/lib" "$pack/share"
  local file
  for file in "${programs[@]}"; do install -s -- "$root/build/release/$file" "$pack/bin/"; done
  for file in "${plugins[@]}"; do cp -- "$root/build/release/$file" "$pack/gpu/"; done
  while read -r file; do cp -L -- "$file" "$pack/lib/"; done < <(foreign_libraries "$pack/bin/"* "$pack/gpu/"*)
  cp -r -- "$root/trainer/data/digits" "$pack/share/digits"
  cp -rL -- "$root/build/release/python" "$pack/python"
  rm -f -- "$pack"/python/anello/libanello_{gpu,kernels}.so  # they are in gpu/
  strip -- "$pack/python/anello/libanello.so"
  cp -- "$root/.ci/prepare.sh" "$root"/tests/gpu/torch_{train,gpu,elastic}.py "$pack/"
  cp -- "$root/tests/gpu.sh" "$pack/run.sh"
  stamp_of_sources >"$pack/stamp"
  local mib
  mib=$(du -sm -- "$pack" | cut -f1)
  say "pack: $pack, $mib MiB"
  ((mib <= most_pack_mib)) || { say "pack: more than $most_pack_mib MiB" >&2 && exit 1; }
}

check_stamp() {
  local sources
  say "pack: of $(tr '\n' ' ' <"$pack/stamp")"
  sources=$(stamp_of_sources)
  [[ -z $sources || $sources == "$(<"$pack/stamp")" || $1 == --old-pack ]] ||
    fail "pack: the sources are $(tr '\n' ' ' <<<"$sources"): make it again (--pack), or test it as it is (--old-pack)"
}

# Adds PyTorch's copies of CUDA's libraries, if the system lacks them.
add_libraries_of_python() {
  local folders libraries
  libraries=$(PATH=$PATH:/usr/sbin:/sbin ldconfig -p 2>/dev/null || true)
  [[ $libraries == *libcublas.so.13* && $libraries == *libnccl.so.2* ]] && return
  folders=$(python3 -c 'import glob, site
print(":".join(folder for packages in site.getsitepackages() for folder in glob.glob(packages + "/nvidia/*/lib")))' 2>/dev/null || true)
  [[ -n $folders ]] || return 0
  say "libraries: the system has no cuBLAS 13 or no NCCL 2; Python's are used"
  export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$folders
}

failures=()
# Ends all processes that a check has started.
end_group() {
  kill -TERM -- "-$1" 2>/dev/null || return 0
  sleep 2
  kill -KILL -- "-$1" 2>/dev/null || true
}

# check LOG SECONDS NAME COMMAND...: runs COMMAND with this limit, and prints at once how it ended. The output is added
# to LOG, and shown if COMMAND fails; `shown` shows the output in any case.
check() {
  local log=$logs/$1.log limit=${ANELLO_GPU_LIMIT:-$2} name=$3 began=$SECONDS process status=0 before=0
  shift 3
  if [[ -f $log ]]; then before=$(wc -c <"$log"); fi
  say "begins  $name (at most $limit s)"
  set -m
  ("$@") >>"$log" 2>&1 &
  process=$!
  set +m
  while kill -0 "$process" 2>/dev/null && ((SECONDS - began < limit)); do sleep 0.1; done
  if kill -0 "$process" 2>/dev/null; then
    end_group "$process"
    wait "$process" 2>/dev/null || true
    status=hung
  else
    wait "$process" || status=$?
  fi
  tail -c "+$((before + 1))" -- "$log" >"$out/now"
  [[ $status != 0 ]] || { say "ok      $name ($((SECONDS - began)) s)" && return; }
  say "FAILED  $name: $([[ $status == hung ]] && echo "not done after $limit s" || echo "status $status"); all of it: $log"
  { grep -nE -B2 -A4 'Failure|[Ee]rror' "$out/now" | head -n 60; } || true
  say "its end:"
  tail -n 20 -- "$out/now"
  failures+=("$name")
}
shown() {
  local failed=${#failures[@]}
  check "$@"
  ((${#failures[@]} > failed)) || cat -- "$out/now"
}

launching=()  # --no-graphs, if graphs give wrong results here, so that the other checks show more
train() { # RANKS DEVICE [option...]
  local ranks=$1 device=$2
  shift 2
  "$bin/anello" run -n "$ranks" -- "$bin/anello-train" --data "$data" --device "$device" "${launching[@]}" "$@"
}
curve() { grep -oE 'epoch +[0-9]+/[0-9]+  loss [0-9.]+  test loss [0-9.]+' | grep -oE '[0-9]+\.[0-9]+'; }

# Checks that every loss is within 1e-3 of the processor's.
same_curve() { # RANKS [option...]
  local ranks=$1
  shift
  paste <(train "$ranks" cpu "$@" | curve) <(train "$ranks" cuda "$@" | curve) |
    awk '{ d = $1 - $2; if (d < 0) d = -d; if (d > 1e-3) bad = 1; print; n++ } END { exit bad || n < 10 }'
}

# Compares the hashes of the parameters with and without graphs, so every bit counts.
same_with_graphs() { # [option...]
  local ranks graphs one_by_one
  for ranks in 1 2; do
    graphs=$(train "$ranks" cuda "$@" | grep -oE 'parameters [0-9a-f]{16}') || return
    one_by_one=$(train "$ranks" cuda --no-graphs "$@" | grep -oE 'parameters [0-9a-f]{16}') || return
    echo "$ranks ranks: $graphs with graphs, $one_by_one without"
    [[ $graphs == "$one_by_one" ]] || return
  done
}

# NCCL refuses two ranks on one GPU, unless it considers them to be on two hosts.
nccl_of_two() {
  "$bin/anello" run -n 2 -- bash -c 'NCCL_HOSTID=host$ANELLO_RANK exec "$@"' - \
    "$bin/gpu_device_test" --gtest_also_run_disabled_tests --gtest_filter='*NcclOfTwoRanks*'
}

# Prints the id of the process that has the given rank in the launcher's job.
process_of_rank() {
  local environment pid
  for environment in /proc/[0-9]*/environ; do
    pid=${environment#/proc/}
    pid=${pid%/environ}
    tr '\0' '\n' <"$environment" 2>/dev/null | grep -qx "ANELLO_RANK=$1" || continue
    tr '\0' ' ' <"/proc/$pid/cmdline" | grep -q -- '--epochs 100000 ' && echo "$pid" && return
  done
}

# Checks that the other ranks end within ten seconds of the kill, and name the dead rank.
killed_rank_is_named() {
  set -m
  train 4 cuda --epochs 100000 >"$out/killed" 2>&1 &
  local launcher=$! victim i
  set +m
  for ((i = 0; i < 600; i++)); do
    grep -qE 'epoch +1/' "$out/killed" && break
    sleep 0.1
  done
  victim=$(process_of_rank 2)
  [[ -z $victim ]] || kill -KILL "$victim"
  for ((i = 0; i < 100; i++)); do
    kill -0 "$launcher" 2>/dev/null || break
    sleep 0.1
  done
  kill -0 "$launcher" 2>/dev/null && echo "the job did not end by itself" && end_group "$launcher"
  wait "$launcher" || true
  cat "$out/killed"
  ((i < 100)) && grep -q 'rank 2 on .* died' "$out/killed"
}

middle() { sort -n | awk '{ all[NR] = $1 } END { print NR ? all[int((NR + 1) / 2)] : "none" }'; }
# Prints the median of the epochs' speeds, without the first epoch.
samples_per_second() { grep -oE '[0-9]+ samples/s' | tail -n +2 | cut -d' ' -f1 | middle; }

# Prints samples per second, each the median of three runs, which take turns.
training_figures() {
  local batch=$1 mode torch=1
  rm -f -- "$out"/{ours,one_by_one,eager,graph}
  touch -- "$out"/{ours,one_by_one,eager,graph}
  for _ in 1 2 3; do
    train 1 cuda --epochs 200 --global-batch "$batch" | samples_per_second >>"$out/ours"
    train 1 cuda --no-graphs --epochs 200 --global-batch "$batch" | samples_per_second >>"$out/one_by_one"
    for mode in eager graph; do
      ((torch == 0)) || LD_LIBRARY_PATH=$own_library_path python3 "$torch_train" "$batch" "$mode" 2>/dev/null >>"$out/$mode" || torch=0
    done
  done
  say "training, batch $batch: ours $(middle <"$out/ours"), without graphs $(middle <"$out/one_by_one"), PyTorch $(middle <"$out/eager")," \
    "PyTorch in a CUDA graph $(middle <"$out/graph") samples/s"
}

# torch needs the system's own libraries, or newer ones than the pack has. Only the package takes missing libraries from
# the pack.
with_torch() { # COMMAND...
  LD_LIBRARY_PATH=${own_library_path:+$own_library_path:}/usr/lib/x86_64-linux-gnu:$pack/lib PYTHONPATH=$python "$@"
}
anello_torch() { with_torch "$bin/anello" run -n "$1" -- python3 -B "$torch_gpu"; }  # RANKS

# Ranks that share a GPU are staged, and a world of one rank needs no NCCL. So this does not test the end of a
# communicator whose kernels hang, which needs two GPUs; tests/gpu/elastic_test.cpp tests it with a fake NCCL.
elastic() { with_torch "$bin/anello" run -n "$1" --min-np 1 -- python3 -B "$torch_elastic"; }  # RANKS

benches() { "$bin/anello" run -n "$1" -- "$bin/anello-bench" --device cuda allreduce -b 4 -e 64M -f 64; }

# Describes the machine, for readers of the logs.
system() {
  nvidia-smi || true
  PATH=$PATH:/usr/sbin:/sbin ldconfig -p | grep -E 'libcuda|nccl|cublas' || true
  "$bin/anello" doctor || echo "doctor: found problems"
}

case $#:${1-} in
  0: | 1:--old-pack) ;;
  1:--pack) make_pack && exit ;;
  *) say "usage: bash tests/gpu.sh [--pack|--old-pack]" >&2 && exit 2 ;;
esac

own_library_path=${LD_LIBRARY_PATH-}
out=$(mktemp -d)
trap 'rm -rf -- "$out"' EXIT
rm -rf -- "$logs"/{system,figures,bench,training,graphs,device,torch,elastic,curves,options,kill,nccl_of_two,broken,sanitizer}.log
mkdir -p -- "$logs"
if [[ -d $pack ]]; then
  check_stamp "${1-}"
  bin=$pack/bin data=$pack/share/digits
  export ANELLO_GPU_PLUGIN=${ANELLO_GPU_PLUGIN:-$pack/gpu/libanello_gpu.so} LD_LIBRARY_PATH=$pack/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
else
  build_all
  mkdir -p -- "$out/bin"
  for program in "${programs[@]}"; do ln -s -- "$root/build/release/$program" "$out/bin/"; done
  bin=$out/bin data=$root/trainer/data/digits
  export ANELLO_GPU_PLUGIN=${ANELLO_GPU_PLUGIN:-$root/build/release/gpu/libanello_gpu.so}
fi

# The most valuable checks first: their output stays, even if the machine is taken away.
add_libraries_of_python
shown system 60 "the machine" system
grep -q '^GPU 0 ' "$logs/system.log" || fail "this needs a GPU; what is said of GPU tensors above is why there is none"
shown figures 90 "figures of kernels, NCCL and staging" "$bin/gpu_figures"
check device 120 "every verb, type and reduction; kernels beside the processor's" "$bin/gpu_device_test"
failed=${#failures[@]}
check graphs 60 "graphs give the same parameters" same_with_graphs
check graphs 90 "graphs give the same parameters with Adam, in two passes" same_with_graphs --optimizer adam --accumulate 2
((${#failures[@]} == failed)) || launching=(--no-graphs)
for batch in 32 1024; do shown training 180 "training, batch $batch" training_figures "$batch"; done
for ranks in 1 2 4; do shown bench 60 "anello-bench on $ranks ranks" benches "$ranks"; done
if python3 -c 'import torch' 2>/dev/null; then
  for ranks in 1 2 3; do shown torch 90 "anello.torch on $ranks ranks" anello_torch "$ranks"; done
  for ranks in 1 2 3; do shown elastic 180 "an elastic job of $ranks ranks that share the GPU" elastic "$ranks"; done
else
  failures+=("anello.torch: python3 has no torch")
fi
for ranks in 1 2 4; do check curves 60 "the processor's curve on $ranks ranks" same_curve "$ranks"; done
check options 120 "the processor's curve with Adam, clipped, in two passes" same_curve 2 --optimizer adam --clip 1 --accumulate 2
check kill 90 "a killed rank is named" killed_rank_is_named
check nccl_of_two 90 "NCCL of two ranks on one GPU" nccl_of_two
check broken 60 "an illegal address is an error in every call" "$bin/gpu_device_test" --gtest_also_run_disabled_tests --gtest_filter='*BrokenDevice*'
PATH=$PATH:/usr/local/cuda/bin
if command -v compute-sanitizer >/dev/null; then
  # Errors of calls are not reported, because the program itself checks them: it queries events that are not ready.
  check sanitizer 180 "compute-sanitizer" compute-sanitizer --report-api-errors no --error-exitcode 1 "$bin/gpu_device_test" --gtest_filter='Kernels.*:*staged_2*'
  # These check memory that blocks share, and memory that nobody has written.
  for tool in racecheck synccheck initcheck; do
    check sanitizer 90 "compute-sanitizer, $tool" compute-sanitizer --tool "$tool" --error-exitcode 1 "$bin/gpu_device_test" --gtest_filter='Kernels.*Rows:Kernels.*Element'
  done
else
  failures+=("compute-sanitizer: it is not there")
fi
say
if ((${#failures[@]} > 0)); then
  printf 'gpu: %s\n' "${failures[@]}"
  say "gpu: FAILED"
  exit 1
fi
say "gpu: PASSED in $SECONDS s"
