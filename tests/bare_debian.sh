#!/usr/bin/env bash
# Both commands of the README on a Debian 12 with nothing but root and apt: debootstrap makes one in FOLDER, and each
# command runs there twice, the second time without a network; before that an unprivileged user is told what to do and
# changes nothing. Needs root, debootstrap, a Debian mirror and about 3 GiB. The mounts live in a namespace of their own: they
# end with this script, so that removing FOLDER never reaches the machine's own /dev.
set -euo pipefail

if (($# != 1)) || [[ $1 == -* ]]; then
  echo "usage: bash tests/bare_debian.sh FOLDER   (made, and removed at the end)"
  exit 2
fi
[[ ! -e $1 ]] || { echo "bare: '$1' exists; name a folder that does not" >&2 && exit 2; }
((EUID == 0)) || { echo "bare: needs root, for debootstrap and chroot" >&2 && exit 2; }
command -v debootstrap >/dev/null || { echo "bare: needs debootstrap (apt-get install debootstrap)" >&2 && exit 2; }

if [[ ${BARE_DEBIAN_INSIDE-} != yes ]]; then
  BARE_DEBIAN_INSIDE=yes unshare --mount --pid --fork --kill-child --propagation private bash "$0" "$@"
  exit
fi

source_folder=$(cd -- "$(dirname -- "$0")/.." && pwd -P)
mkdir -p -- "$1"
folder=$(cd -- "$1" && pwd -P)
remove() {
  umount --recursive "$folder" 2>/dev/null || true
  rm -rf --one-file-system -- "$folder"
}
trap remove EXIT

clean=(env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin TERM=dumb)
home=project
inside() { "${clean[@]}" chroot "$folder" env -C "/$home" "$@"; }
# shellcheck disable=SC2016
inside_offline() { "${clean[@]}" unshare --net sh -c 'ip link set lo up && exec "$@"' sh chroot "$folder" env -C "/$home" "$@"; }
step() {
  echo "+ $1"
  shift
  "$@" || { echo "bare: FAILED" && exit 1; }
}
# expect TEXT COMMAND...: COMMAND prints TEXT.
expect() {
  local text=$1 out
  shift
  out=$("$@" 2>&1) || { printf '%s\n' "$out" && return 1; }
  printf '%s\n' "$out"
  grep -qF -- "$text" <<<"$out" || { echo "bare: expected '$text' above" && return 1; }
}

quiet() { out=$("$@" 2>&1) || { printf '%s\n' "$out" && return 1; }; }
step "debootstrap --variant=minbase bookworm" quiet debootstrap --variant=minbase bookworm "$folder"
mount --bind "$folder" "$folder"  # a chroot's root must be a mount for namespaces to be made in it
mount -t proc proc "$folder/proc"
mount -t tmpfs -o mode=755 dev "$folder/dev"
for node in null:3 zero:5 full:7 random:8 urandom:9; do mknod -m 666 "$folder/dev/${node%:*}" c 1 "${node#*:}"; done
mkdir -m 1777 "$folder/dev/shm"
mkdir "$folder/dev/pts"
mount -t devpts -o newinstance,ptmxmode=666 devpts "$folder/dev/pts"
ln -s pts/ptmx "$folder/dev/ptmx"
ln -s /proc/self/fd "$folder/dev/fd"
cp /etc/resolv.conf "$folder/etc/resolv.conf"
find /etc/apt/apt.conf.d -type f -exec grep -lE '^ *Acquire' {} + | xargs -r cp -t "$folder/etc/apt/apt.conf.d"
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
