# From a bare Debian to a build folder: sourced by trainer/quickstart.sh and tests/run.sh.
# Needs bash and coreutils only, works from any folder, from a path with spaces and without git. It installs what is
# missing and nothing else, says so first, and touches no network when nothing is missing. Leaves the shell in the
# project's folder, $root.
# shellcheck shell=bash disable=SC2034

root=$(CDPATH='' cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd -P)
cd -- "$root" || exit

engine_packages=(cmake ninja-build g++ libasio-dev libhwy-dev libxxhash-dev libssl-dev)
program_packages=(libpmix-dev libcli11-dev nlohmann-json3-dev zlib1g-dev libopenblas-dev pkgconf)
test_packages=(ccache dpkg-dev file man-db zsh libgtest-dev libgmock-dev libbenchmark-dev valgrind iproute2
  slurm-wlm munge gridengine-master gridengine-exec gridengine-client openssh-server openssh-client mpich openmpi-bin
  clang shellcheck python3-torch python3-numpy python3-pytest python3-pip python3-kubernetes)
picture_packages=(gnuplot-nox)
fuzz_packages=(libclang-rt-14-dev)

say() { printf '%s\n' "$*"; }
fail() {
  printf '%s\n' "$*" >&2
  exit 1
}

missing_packages() {
  local package states
  states=$'\n'$(dpkg-query -W -f '${Package} ${db:Status-Status}\n' -- "$@" 2>/dev/null || true)$'\n'
  for package; do
    [[ $states == *$'\n'"$package installed"$'\n'* ]] || printf '%s\n' "$package"
  done
}

# as_root COMMAND...: directly, or by sudo when it will not hang on a password that nobody can type.
can_be_root() { ((EUID == 0)) || { command -v sudo && { sudo -n true || [[ -t 0 ]]; }; } >/dev/null 2>&1; }
as_root() {
  if ((EUID == 0)); then "$@"; else sudo "$@"; fi
}

apt_options=(-y --no-install-recommends -o DPkg::Lock::Timeout=120)

say_how_without_root() {
  local again=$1
  shift
  cat >&2 <<TEXT
packages: missing: $*
Only root can install them, and there is neither root nor sudo here. Nothing was changed.
As root, this installs them; then run '$again' again:
  apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $*
Or build into a prefix of your own, from what you have; what is missing turns one feature off and CMake names it:
  cmake -S '$root' -B ~/anello-build -DCMAKE_INSTALL_PREFIX=~/.local -DCMAKE_PREFIX_PATH=~/.local
  cmake --build ~/anello-build && cmake --install ~/anello-build
TEXT
}

# install_packages AGAIN PACKAGE...: AGAIN is the command that the message asks a user without root to repeat.
install_packages() {
  local again=$1 missing log
  shift
  if ! command -v dpkg-query >/dev/null; then
    say "packages: not checked, this is not a Debian system; needed are the equivalents of: $*"
    return
  fi
  mapfile -t missing < <(missing_packages "$@")
  if ((${#missing[@]} == 0)); then
    say "packages: all $# are installed"
    return
  fi
  can_be_root || { say_how_without_root "$again" "${missing[@]}"; exit 1; }
  say "packages: installing with apt-get: ${missing[*]}"
  ((EUID == 0)) || say "packages: sudo may ask for your password"
  log=$(mktemp)
  as_root apt-get update >"$log" 2>&1 || fail_with_log "packages: apt-get update failed" "$log"
  # Grid Engine's package would make a cluster at once, which fails where /etc/hosts lacks this host's name.
  [[ " ${missing[*]} " != *' gridengine-master '* ]] ||
    as_root debconf-set-selections <<<'gridengine-master shared/gridengineconfig boolean false'
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install "${apt_options[@]}" "${missing[@]}" >"$log" 2>&1 ||
    fail_with_log "packages: apt-get install ${missing[*]} failed" "$log"
  rm -f -- "$log"
}

fail_with_log() {
  tail -n 40 -- "$2" >&2
  fail "$1 (all of its output: $2)"
}

# show_progress LOG: passes ninja's output on to the log. A terminal shows its `[41/120]` in one line that is rewritten;
# elsewhere a line appears every five seconds, also while nothing ends.
show_progress() {
  local log=$1 line='' part='' state='[0/?] starting' shown=$SECONDS status width terminal=0
  [[ ! -t 1 ]] || terminal=1
  width=$(tput cols 2>/dev/null) || width=80
  while :; do
    status=0
    IFS= read -r -t 1 part || status=$?
    line+=$part
    if ((status == 0)); then
      printf '%s\n' "$line" >>"$log"
      [[ $line != '['*/*'] '* || $line == *'Re-checking globbed'* ]] || state=$line
      line=''
      ((terminal == 0)) || printf '\r\033[K%s' "${state:0:width-1}"
    elif ((status <= 128)); then  # the end, not the second's
      break
    fi
    if ((terminal == 0 && SECONDS - shown >= 5)); then
      say "build: $state"
      shown=$SECONDS
    fi
  done
  [[ -z $line ]] || printf '%s\n' "$line" >>"$log"
  ((terminal == 0)) || printf '\r\033[K'
}

# build PRESET [CMAKE ARGUMENTS] -- [TARGET...]: no target is all of them. Says which features were left out.
build() {
  local preset=$1 log=build/$1.log start=$SECONDS line list='' configure=()
  shift
  while [[ $1 != -- ]]; do configure+=("$1") && shift; done
  shift
  [[ -w $root ]] || fail "build: '$root' cannot be written to; copy it to a folder of yours"
  mkdir -p build
  say "build: $preset ${*:-(everything)} on $(nproc) cores; log: $log"
  # A build folder that came from elsewhere with the sources is refused at first, and then made afresh.
  cmake --preset "$preset" "${configure[@]}" >"$log" 2>&1 ||
    cmake --preset "$preset" --fresh "${configure[@]}" >"$log" 2>&1 ||
    fail_with_log "build: cmake could not configure '$preset'" "$log"
  while IFS= read -r line; do
    case $line in  # what is built and what is not: two lists, each ends with an empty line
      '-- anello: '*) list=1 && say "${line#-- anello: }" ;;
      ' * '*) [[ -z $list ]] || say "$line" ;;
      *) list='' ;;
    esac
  done <"$log"
  (
    set -o pipefail
    NINJA_STATUS='[%f/%t] ' cmake --build "build/$preset" -j "$(nproc)" ${1:+--target "$@"} 2>&1 | show_progress "$log"
  ) ||
    fail_with_log "build: compiling '$preset' failed" "$log"
  say "build: $preset done in $((SECONDS - start)) s"
}
