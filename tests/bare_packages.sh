#!/usr/bin/env bash
# Tries the tarball and the Debian packages that cpack makes of build/release, in a fresh Debian 12. The tarball is
# unpacked without anything else installed, and apt installs the packages. Each then trains on two ranks. Needs root,
# debootstrap and a Debian mirror.
set -euo pipefail
source "$(dirname -- "${BASH_SOURCE[0]}")/bare_root.sh"

[[ -e $source_folder/build/release/CPackConfig.cmake ]] || { echo "bare: build first: bash tests/run.sh" >&2 && exit 2; }
mkdir "$folder/archives"
for generator in TGZ DEB; do
  step "cpack -G $generator" quiet cpack -G "$generator" --config "$source_folder/build/release/CPackConfig.cmake" -B "$folder/archives"
done

mkdir "$folder/opt/any where"
inside_offline sh -c 'tar -C "/opt/any where" --strip-components 1 -xf /archives/*.tar.gz'
bin="/opt/any where/bin"
step "the tarball" expect "on all 2 ranks" inside_offline "$bin/anello" run -n 2 -- "$bin/anello-train" --epochs 2

step "apt-get update" quiet inside apt-get update
step "apt-get install ./anello.deb" quiet inside sh -c 'DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends /archives/*.deb'
step "the package anello" expect "on all 2 ranks" inside_offline anello run -n 2 -- anello-train --epochs 2
mkdir "$folder/opt/trainer"
cp -r "$source_folder/trainer/examples" "$source_folder/trainer/data" "$folder/opt/trainer"
step "the package python3-anello" expect "on 2 ranks" inside_offline anello run -n 2 -- python3 /opt/trainer/examples/plain_sgd.py
echo "bare: PASSED"
