#!/usr/bin/env bash
# Checks the form of all sources: C++ and CUDA by clang-format, Python by ruff, scripts by shellcheck; and the types of
# the Python package by mypy. Prints what each tool would change. Ends with 77 where a tool is missing. The tools,
# except for shellcheck, are those of tests/python/lint.txt, in build/lint.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."
tools=$PWD/build/lint
for tool in "$tools"/bin/{clang-format,ruff,mypy} shellcheck; do
  command -v "$tool" >/dev/null ||
    { echo "skipped: ${tool##*/} is not there: bash tests/python/frameworks.sh build/lint lint.txt, and shellcheck of Debian" && exit 77; }
done

# sources PATTERN...: files of these names, each followed by a null byte.
sources() {
  local names=() pattern
  for pattern; do names+=(-o -name "$pattern"); done
  find . \( -path ./build -o -path "./.?*" ! -path ./.ci \) -prune -o -type f \( "${names[@]:1}" \) -print0
}

status=0
sources '*.cpp' '*.hpp' '*.h' '*.cu' '*.cuh' | xargs -0 -n 40 "$tools/bin/clang-format" --dry-run --Werror || status=1
"$tools/bin/ruff" check --no-cache --quiet . || status=1
"$tools/bin/mypy" --cache-dir /dev/null --no-error-summary || status=1
{ sources '*.sh' && printf '.ci/run\0'; } | xargs -0 -n 8 shellcheck --format gcc || status=1
exit "$status"
