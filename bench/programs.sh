# Finds the programs, computes medians and payloads, and draws. Other scripts source this file. $bin may then name a folder.
# shellcheck shell=bash disable=SC2034

bench_root=$(CDPATH='' cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd -P)
bin=

fail() {
  printf '%s: %s\n' "${0##*/}" "$*" >&2
  exit 2
}

# Prints the program's path: in $bin if $bin is set; otherwise in the release build, then on PATH.
find_program() {
  local name=$1 folder folders=("$bin")
  [[ -n $bin ]] || folders=("$bench_root"/build/release/{rendezvous,trainer,bench})
  for folder in "${folders[@]}"; do
    [[ ! -x $folder/$name ]] || { printf '%s\n' "$folder/$name" && return; }
  done
  [[ -z $bin ]] && command -v -- "$name"
}

need_program() {
  find_program "$1" || fail "$1 was not found${bin:+ in $bin}; build it: cmake --preset release &&" \
    "cmake --build build/release; or name the folder where it is: -B DIR"
}

# need_gnuplot SCRIPT: installs gnuplot, if it is missing.
need_gnuplot() {
  command -v gnuplot >/dev/null ||
    (source "$bench_root/.ci/prepare.sh" && install_packages "bash $1" "${picture_packages[@]}") >&2
}

# draw SCRIPT PICTURE DATA VARIABLES: draws with gnuplot, and removes gnuplot's many empty groups.
draw() {
  gnuplot -e "data='$3'; picture='$2'; $4" "$bench_root/bench/$1"
  sed -Ezi ':again s/<g [^>]*>\s*<\/g>\n//g; t again' "$2"
  echo "$2"
}

# whole WHAT TEXT: prints TEXT if it is a whole number of at least 1; fails otherwise.
whole() {
  [[ $2 =~ ^[1-9][0-9]{0,5}$ ]] || fail "$1 '$2' is not a whole number of at least 1"
  printf '%s\n' "$2"
}

# Describes this machine, for results: "2 cores of a CPU, Linux 6.1".
machine() {
  awk -F ': ' -v cores="$(nproc)" -v kernel="$(uname -r)" '
    /^model name/ { model = $2; exit }
    END { sub(/[^0-9.].*/, "", kernel); gsub(/["\\]/, "", model); print cores " cores, " model ", Linux " kernel }' /proc/cpuinfo
}

# A function for awk programs: quantile(values, count, share) of values[1..count], which the function sorts.
awk_quantile='
  function quantile(v, n, share,   i, j, t, at) {
    for (i = 2; i <= n; i++) { t = v[i]; for (j = i - 1; j > 0 && v[j] > t; j--) v[j + 1] = v[j]; v[j + 1] = t }
    at = 1 + share * (n - 1); i = int(at)
    return i < n ? v[i] + (at - i) * (v[i + 1] - v[i]) : v[n]
  }'

# medians WORDS: reads lines of WORDS words and then figures. Prints each beginning once, in their order, with medians.
medians() {
  awk -v words="$1" "$awk_quantile"'
    { key = $1; for (k = 2; k <= words; k++) key = key " " $k
      if (!(key in count)) order[++keys] = key
      n = ++count[key]; for (k = words + 1; k <= NF; k++) value[key, k, n] = $k; last = NF }
    END {
      for (i = 1; i <= keys; i++) {
        key = order[i]; line = key
        for (k = words + 1; k <= last; k++) {
          delete all
          for (n = 1; n <= count[key]; n++) all[n] = value[key, k, n]
          line = line sprintf(" %.12g", quantile(all, count[key], 0.5))
        }
        print line
      } }'
}

# A function for awk programs: payload(collective, hosts, min, world) is the data that must leave or enter the busiest
# host, divided by the bytes of the larger of a rank's two tensors. min: the smallest number of ranks of a host.
awk_payload='
  function payload(collective, hosts, min, world) {
    if (collective == "allreduce") return 2 * (hosts - 1) / hosts
    return collective ~ /^(broadcast|reduce)$/ ? 1 : 1 - min / world
  }'

# bytes_of WHAT LIST: prints a list of sizes such as 4,64K,64M in bytes; each must be a whole number of floats.
bytes_of() {
  local size unit bytes all=()
  [[ $2 =~ ^[0-9]{1,12}[KMGkmg]?(,[0-9]{1,12}[KMGkmg]?)*$ ]] || fail "$1 '$2' is not a list of sizes such as 4,64K,64M"
  for size in ${2//,/ }; do
    unit=${size##*[0-9]} bytes=$((10#${size%%[!0-9]*}))
    case ${unit^} in K) bytes=$((bytes << 10)) ;; M) bytes=$((bytes << 20)) ;; G) bytes=$((bytes << 30)) ;; esac
    ((bytes > 0 && bytes % 4 == 0)) || fail "$1 '$size' is not a number of floats: a multiple of 4 bytes"
    all+=("$bytes")
  done
  (IFS=, && printf '%s\n' "${all[*]}")
}
