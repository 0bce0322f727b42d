# Makes a fresh Debian 12, or the system that $suite names, in a folder. Sourced by the scripts that try Anello on such
# a system. Needs root, debootstrap and a Debian mirror.
# The mounts live in a namespace of their own: they end with the script, so that removing the folder never reaches the
# machine's own /dev. The folder is given on the command line, is made, and is removed at the end.
# shellcheck shell=bash disable=SC2034

if (($# != 1)) || [[ $1 == -* ]]; then
  echo "usage: bash $0 FOLDER   (made, and removed at the end)"
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
home=.  # where commands run, from the root
inside() { "${clean[@]}" chroot "$folder" env -C "/$home" "$@"; }
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
suite=${suite:-bookworm}
step "debootstrap --variant=minbase $suite" quiet debootstrap --variant=minbase "$suite" "$folder"
mount --bind "$folder" "$folder"  # a chroot's root must be a mount for namespaces to be made in it
mount -t proc proc "$folder/proc"
mount --rbind /sys "$folder/sys"
mount --make-rslave "$folder/sys"
mount -t tmpfs -o mode=755 dev "$folder/dev"
for node in null:3 zero:5 full:7 random:8 urandom:9; do mknod -m 666 "$folder/dev/${node%:*}" c 1 "${node#*:}"; done
mkdir -m 1777 "$folder/dev/shm"
mkdir "$folder/dev/pts"
mount -t devpts -o newinstance,ptmxmode=666 devpts "$folder/dev/pts"
ln -s pts/ptmx "$folder/dev/ptmx"
ln -s /proc/self/fd "$folder/dev/fd"
cp /etc/resolv.conf "$folder/etc/resolv.conf"
find /etc/apt/apt.conf.d -type f -exec grep -lZE '^ *Acquire' {} + | xargs -r -0 cp -t "$folder/etc/apt/apt.conf.d"
