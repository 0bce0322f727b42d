# Installs other libraries in virtual environments of the build folder. Sourced after programs.sh.
# shellcheck shell=bash disable=SC2154

# installed FOLDER LIST: makes the environment build/FOLDER with the packages of a list, by name and version. The list is
# a path from tests/python.
installed() { bash "$bench_root/tests/python/frameworks.sh" "$bench_root/build/$1" "$2" >&2; }
torch_installed() { installed torch torch.txt; }

# beside_torch FOLDER LIST: makes the environment, which also has PyTorch's packages.
beside_torch() {
  local packages=lib/python3.11/site-packages
  torch_installed && installed "$1" "$2" && echo "$bench_root/build/torch/$packages" >"$bench_root/build/$1/$packages/torch.pth"
}

# Installs Horovod, and prints why it cannot if it cannot.
horovod_missing() {
  beside_torch elastic/horovod ../../bench/elastic/horovod.txt || { echo "could not be installed" && return; }
  "$bench_root/build/elastic/horovod/bin/python" -c 'import horovod.torch' 2>/dev/null ||
    bash "$bench_root/bench/elastic/build_horovod.sh" >&2 || echo "could not be built: build/elastic/horovod.log"
}
