#!/usr/bin/env bash
# Checks everything that needs a GPU, and prints a table of figures. Without arguments it uses build/gpu-pack if that is
# there, and else builds; --pack makes build/gpu-pack, for a machine that has a GPU but neither network nor our packages.
set -euo pipefail
source "$(dirname -- "${BASH_SOURCE[0]}")/../.ci/prepare.sh"

pack=$root/build/gpu-pack
programs=(rendezvous/anello trainer/anello-train bench/anello-bench tests/gpu/gpu_device_test tests/gpu/gpu_figures)
plugins=(gpu/libanello_gpu.so gpu/libanello_kernels.so)
most_pack_mib=60

build_all() {
  install_packages "bash tests/gpu.sh" "${engine_packages[@]}" "${program_packages[@]}" "${test_packages[@]}"
  build release -DANELLO_BUILD_TESTS=ON -DANELLO_CUDA=ON -- "${programs[@]##*/}" anello_gpu_plugin anello_kernels
}

# What a program of ours is linked with and the other machine may not have: neither the C library nor CUDA's own.
foreign_libraries() {
  ldd "$@" | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | sort -u |
    grep -vE '/(libc|libm|libdl|libpthread|librt|ld-linux[^/]*|libcuda|libcublas|libcublasLt|libcudart|libnvidia[^/]*)\.so'
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
  local mib
  mib=$(du -sm -- "$pack" | cut -f1)
  say "pack: $pack, $mib MiB"
  ((mib <= most_pack_mib)) || { say "pack: more than $most_pack_mib MiB" >&2 && exit 1; }
}

# Where CUDA's libraries are not the system's, those that came with PyTorch may do.
add_libraries_of_python() {
  local folders
  ldconfig -p | grep -q libcublas.so && ldconfig -p | grep -q libnccl.so && return
  folders=$(python3 -c 'import glob, site
print(":".join(folder for packages in site.getsitepackages() for folder in glob.glob(packages + "/nvidia/*/lib")))' 2>/dev/null || true)
  [[ -n $folders ]] || return 0
  say "libraries: the system has no cuBLAS or no NCCL; Python's are used"
  export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$folders
}

failures=()
# check NAME COMMAND...: runs it, and says at once how it ended.
check() {
  local name=$1 began=$SECONDS
  shift
  if "$@" >"$out/log" 2>&1; then
    say "ok      $name ($((SECONDS - began)) s)"
  else
    say "FAILED  $name ($((SECONDS - began)) s)"
    tail -n 20 "$out/log"
    failures+=("$name")
  fi
}

train() { # RANKS DEVICE [option...]
  local ranks=$1 device=$2
  shift 2
  "$bin/anello" run -n "$ranks" -- "$bin/anello-train" --data "$data" --device "$device" "$@"
}
curve() { grep -oE 'epoch +[0-9]+/[0-9]+  loss [0-9.]+  test loss [0-9.]+' | grep -oE '[0-9]+\.[0-9]+'; }

# Every loss within 1e-3 of the processor's.
same_curve() {
  paste <(train "$1" cpu | curve) <(train "$1" cuda | curve) |
    awk '{ d = $1 - $2; if (d < 0) d = -d; if (d > 1e-3) bad = 1; print; n++ } END { exit bad || n < 10 }'
}

# Of the launcher's job: the process of that rank.
process_of_rank() {
  local environment pid
  for environment in /proc/[0-9]*/environ; do
    pid=${environment#/proc/}
    pid=${pid%/environ}
    tr '\0' '\n' <"$environment" 2>/dev/null | grep -qx "ANELLO_RANK=$1" || continue
    tr '\0' ' ' <"/proc/$pid/cmdline" | grep -q -- '--epochs 100000 ' && echo "$pid" && return
  done
}

# The others end within ten seconds of the kill, and name the dead rank.
killed_rank_is_named() {
  train 4 cuda --epochs 100000 >"$out/killed" 2>&1 &
  local launcher=$! victim i
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
  kill -KILL "$launcher" 2>/dev/null && echo "the job did not end by itself"
  wait "$launcher" || true
  cat "$out/killed"
  ((i < 100)) && grep -q 'rank 2 on .* died' "$out/killed"
}

samples_per_second() { grep -oE '[0-9]+ samples/s' | tail -n 1 | cut -d' ' -f1; }

figures() {
  say
  say "figures, on $(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader | head -n 1):"
  "$bin/gpu_figures" || failures+=(figures)
  local ranks
  for ranks in 1 2 4; do
    "$bin/anello" run -n "$ranks" -- "$bin/anello-bench" --device cuda allreduce -b 4 -e 64M -f 64 ||
      failures+=("anello-bench on $ranks ranks")
  done
  for batch in 32 1024; do
    say "training, batch $batch: ours $(train 1 cuda --epochs 20 --global-batch "$batch" | samples_per_second)," \
      "PyTorch $(LD_LIBRARY_PATH=$own_library_path python3 "$root/tests/gpu/torch_train.py" "$batch" 2>/dev/null || echo none) samples/s"
  done
}

case $#:${1-} in
  0:) ;;
  1:--pack) make_pack && exit ;;
  *) say "usage: bash tests/gpu.sh [--pack]" >&2 && exit 2 ;;
esac

own_library_path=${LD_LIBRARY_PATH-}
out=$(mktemp -d)
trap 'rm -rf -- "$out"' EXIT
if [[ -d $pack ]]; then
  bin=$pack/bin data=$pack/share/digits
  export ANELLO_GPU_PLUGIN=${ANELLO_GPU_PLUGIN:-$pack/gpu/libanello_gpu.so} LD_LIBRARY_PATH=$pack/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
else
  build_all
  mkdir -p -- "$out/bin"
  for program in "${programs[@]}"; do ln -s -- "$root/build/release/$program" "$out/bin/"; done
  bin=$out/bin data=$root/trainer/data/digits
  export ANELLO_GPU_PLUGIN=${ANELLO_GPU_PLUGIN:-$root/build/release/gpu/libanello_gpu.so}
fi

add_libraries_of_python
"$bin/anello" doctor >"$out/doctor" || say "doctor: found problems"
cat -- "$out/doctor"
grep -q '^GPU 0 ' "$out/doctor" || fail "this needs a GPU; what is said of GPU tensors above is why there is none"
check "every verb, type and reduction; kernels beside the processor's" "$bin/gpu_device_test"
PATH=$PATH:/usr/local/cuda/bin
if command -v compute-sanitizer >/dev/null; then
  # What calls return is looked at by the program itself, which asks for events that are not ready.
  check "compute-sanitizer" compute-sanitizer --report-api-errors no --error-exitcode 1 "$bin/gpu_device_test" --gtest_filter='Kernels.*:*staged_2*'
else
  failures+=("compute-sanitizer: it is not there")
fi
for ranks in 1 2 4; do check "the processor's curve on $ranks ranks" same_curve "$ranks"; done
check "a killed rank is named" killed_rank_is_named
figures
say
if ((${#failures[@]} > 0)); then
  printf 'gpu: %s\n' "${failures[@]}"
  say "gpu: FAILED"
  exit 1
fi
say "gpu: PASSED in $SECONDS s"
