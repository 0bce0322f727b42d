#!/usr/bin/env bash
# frameworks.sh FOLDER: makes a virtual environment with TensorFlow, JAX and Pillow, of the versions in frameworks.txt,
# unless FOLDER has it. It takes 1.5 min and 2 GB, and fails without a network. FOLDER/complete is written last.
set -euo pipefail
folder=$1
versions=$(dirname -- "${BASH_SOURCE[0]}")/frameworks.txt
python=/usr/bin/python3
[[ -x $python ]] || python=python3

if cmp -s -- "$versions" "$folder/complete"; then
  echo "frameworks: TensorFlow and JAX are installed in $folder"
  exit
fi
echo "frameworks: installing TensorFlow and JAX into $folder (2 GB)"
rm -rf -- "$folder"
# Debian's venv has no pip of its own: the one outside installs into it.
log=$(mktemp)
trap 'rm -f -- "$log"' EXIT
if "$python" -m venv --without-pip -- "$folder" >"$log" 2>&1 &&
  "$python" -m pip --python "$folder/bin/python" install --no-deps --only-binary :all: --retries 1 -r "$versions" >>"$log" 2>&1; then
  cp -- "$versions" "$folder/complete"
else
  tail -n 3 -- "$log"
  echo "frameworks: TensorFlow and JAX could not be installed; tests that need them are skipped"
  rm -rf -- "$folder"
  exit 1
fi
