#!/usr/bin/env bash
# Runs both commands of the README on a Debian 12 with only root and apt: debootstrap makes one in FOLDER, and each
# command runs there twice, the second time without a network. Before that, an unprivileged user gets instructions, and
# nothing changes. Needs root, debootstrap, a Debian mirror and about 3 GiB.
set -euo pipefail
source "$(dirname -- "${BASH_SOURCE[0]}")/bare_root.sh"

home=project
mkdir "$folder/$home"
tar -C "$source_folder" --exclude=./build --exclude=./.git -cf - . | tar -C "$folder/$home" -xf -

echo "+ without root: nothing changes, and the apt line is said"
inside useradd --create-home plain
before=$(inside dpkg-query -W | cksum)
for command in trainer/quickstart.sh tests/run.sh; do
  status=0
  said=$(inside setpriv --reuid plain --regid plain --clear-groups bash "$command" 2>&1) || status=$?
  grep -F 'apt-get install' <<<"$said" || { printf '%s\nbare: FAILED: no apt line\n' "$said" && exit 1; }
  ((status != 0)) || { echo "bare: FAILED: a success was claimed" && exit 1; }
done
[[ $before == "$(inside dpkg-query -W | cksum)" && ! -e $folder/$home/build ]] || { echo "bare: FAILED: something changed" && exit 1; }

step "bash trainer/quickstart.sh" expect "quickstart: DONE" inside bash trainer/quickstart.sh
step "bash tests/run.sh" expect "tests: PASSED" inside bash tests/run.sh
again="again, without a network"
step "bash trainer/quickstart.sh, $again" expect "quickstart: DONE" inside_offline bash trainer/quickstart.sh
step "bash tests/run.sh, $again" expect "tests: PASSED" inside_offline bash tests/run.sh
echo "bare: PASSED"
