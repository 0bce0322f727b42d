#!/usr/bin/env bash
# Compiles Horovod 0.28.1 with Gloo for the PyTorch in build/torch, once, and installs it in build/elastic/horovod. Its
# sources are C++14, and today's PyTorch needs C++20. Takes 4 minutes on 2 idle cores.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.."
version=0.28.1 wheels=build/elastic/wheels
scratch=$(mktemp -d)
trap 'rm -rf -- "$scratch"' EXIT
pip=(/usr/bin/python3 -m pip --python "$PWD/build/elastic/horovod/bin/python")
{
  if ! compgen -G "$wheels/horovod-$version-*.whl"; then
    echo "elastic: compiling Horovod $version in $wheels" >&3
    "${pip[@]}" download --no-deps --no-build-isolation --no-binary :all: --dest "$scratch" "horovod==$version"
    tar -xf "$scratch/horovod-$version.tar.gz" -C "$scratch"
    sed -i 's/CMAKE_CXX_STANDARD 14/CMAKE_CXX_STANDARD 20/' "$scratch/horovod-$version"/{,horovod/torch/}CMakeLists.txt
    MAKEFLAGS=-j$(nproc) HOROVOD_WITH_GLOO=1 HOROVOD_WITHOUT_MPI=1 HOROVOD_WITH_PYTORCH=1 HOROVOD_WITHOUT_TENSORFLOW=1 \
      HOROVOD_WITHOUT_MXNET=1 "${pip[@]}" wheel --no-deps --no-build-isolation --wheel-dir "$wheels" "$scratch/horovod-$version"
  fi
  "${pip[@]}" install --no-deps --no-index --find-links "$wheels" "horovod==$version"
} 3>&2 >build/elastic/horovod.log 2>&1
