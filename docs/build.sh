#!/usr/bin/env bash
# Makes a site of the public headers and of the pages, in build/docs/html. A warning is an error.
set -euo pipefail
source "$(dirname -- "${BASH_SOURCE[0]}")/../.ci/prepare.sh"

command -v doxygen >/dev/null || install_packages "bash docs/build.sh" doxygen
mapfile -t pages < <(find . -path './build*' -prune -o -path './.*' -prune -o -name '*.md' -print)
mkdir -p build/docs
{
  cat docs/Doxyfile
  printf 'INPUT ='
  printf ' "%s"' "${pages[@]#./}" ring/include/anello/*.{h,hpp}
} | doxygen -
say "docs: build/docs/html/index.html"
