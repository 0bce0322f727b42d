#!/usr/bin/env bash
# frameworks.sh FOLDER [LIST]: makes a virtual environment in FOLDER with the packages of a list, unless FOLDER already
# has it. LIST is frameworks.txt (TensorFlow, JAX and Pillow; 1.5 min, 2 GB), torch.txt (2 min, 4 GB) or lint.txt. Fails
# without a network. FOLDER/complete is written last.
set -euo pipefail
folder=$1 list=${2-frameworks.txt}
versions=$(dirname -- "${BASH_SOURCE[0]}")/$list
python=/usr/bin/python3
[[ -x $python ]] || python=python3

if cmp -s -- "$versions" "$folder/complete"; then
  echo "frameworks: what $list names is installed in $folder"
  exit
fi
echo "frameworks: installing what $list names into $folder"
rm -rf -- "$folder"
# Debian's venv has no pip of its own: the system's pip installs into it.
log=$(mktemp)
trap 'rm -f -- "$log"' EXIT
if "$python" -m venv --without-pip -- "$folder" >"$log" 2>&1 &&
  "$python" -m pip --python "$folder/bin/python" install --no-deps --only-binary :all: --retries 1 -r "$versions" >>"$log" 2>&1; then
  cp -- "$versions" "$folder/complete"
else
  tail -n 3 -- "$log"
  echo "frameworks: what $list names could not be installed; tests that need it are skipped"
  rm -rf -- "$folder"
  exit 1
fi
