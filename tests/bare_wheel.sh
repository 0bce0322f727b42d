#!/usr/bin/env bash
# Tries the wheel that trainer/python/wheel.sh has made, in a fresh Debian 12 (with suite=trixie: Debian 13) that has
# Python and pip but no compiler. pip installs the wheel without a network, and it trains on two ranks. Needs root,
# debootstrap and a Debian mirror.
set -euo pipefail
source "$(dirname -- "${BASH_SOURCE[0]}")/bare_root.sh"

wheel=$(echo "$source_folder"/build/wheel/*.whl)
[[ -e $wheel ]] || { echo "bare: make it first: bash trainer/python/wheel.sh" >&2 && exit 2; }
mkdir "$folder/opt/trainer"
cp -r "$source_folder/trainer/examples" "$source_folder/trainer/data" "$folder/opt/trainer"
cp "$wheel" "$folder/opt"

step "apt-get update" quiet inside apt-get update
step "apt-get install python3-venv" quiet inside sh -c 'DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends python3-venv'
step "a virtual environment" inside python3 -m venv /opt/venv
! inside sh -c 'command -v cc gcc g++ cmake make' || { echo "bare: FAILED: there is a compiler" && exit 1; }
begun=${EPOCHREALTIME/./}
step "pip install anello-*.whl" inside_offline /opt/venv/bin/pip install --no-index --quiet "/opt/${wheel##*/}"
step "two ranks" expect "on 2 ranks" inside_offline /opt/venv/bin/anello run -n 2 -- /opt/venv/bin/python /opt/trainer/examples/plain_sgd.py
echo "bare: PASSED: $(((${EPOCHREALTIME/./} - begun) / 1000)) ms from pip install to two trained ranks"
