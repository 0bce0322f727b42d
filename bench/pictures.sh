#!/usr/bin/env bash
# Draws recorded results as SVG. One picture shows how the time of a call depends on its size, for us and each peer,
# with a panel for each number of ranks. For results between hosts, a second picture shows how the used share of the
# links' rate depends on the number of ranks.
set -euo pipefail
source "$(dirname -- "${BASH_SOURCE[0]}")/programs.sh"

folder=$bench_root/bench/pictures
usage() {
  cat <<TEXT
usage: bench/pictures.sh [-d FOLDER] [FILE...]
  -d FOLDER  where the pictures are written (bench/pictures)
  FILE       results that compare.sh -o or netns.sh -o has written (all of bench/results); FILE.json becomes FILE.svg,
             and FILE-efficiency.svg if it was measured on links of a known rate
TEXT
}

while getopts :d:h option; do
  case $option in
    d) folder=$OPTARG ;;
    h) usage && exit ;;
    *) usage >&2 && exit 2 ;;
  esac
done
shift $((OPTIND - 1))
(($# > 0)) || set -- "$bench_root"/bench/results/*.json
for file; do [[ -r $file ]] || fail "'$file' cannot be read; compare.sh -o and netns.sh -o write such files"; done
need_gnuplot bench/pictures.sh
mkdir -p -- "$folder" || fail "-d '$folder' cannot be made"
scratch=$(mktemp -d)
trap 'rm -rf -- "$scratch"' EXIT

# text FILE NAME: prints the field NAME, a text or a number, from the first line of the file.
text() { sed -n "1s/.*\"$2\":\"\\{0,1\\}\\([^\",}]*\\(, [^\",}]*\\)*\\).*/\\1/p" "$1"; }

# points FILE: prints lines "ranks bytes series microseconds", for calls in place.
points() {
  awk '
    function value(name,   parts) {
      return split($0, parts, "\"" name "\":\"?") > 1 ? substr(parts[2], 1, match(parts[2], /["},]/) - 1) : ""
    }
    value("placement") == "in-place" {
      where = value("world") " " value("size")
      if (!seen[where]++) print where, "anello", value("anello_us")
      if (value("peer") != "anello") print where, value("peer"), value("peer_us")
    }' "$1" | sort -k3,3 -k1,1n -k2,2n
}

# efficiency POINTS RATE_MBIT RANKS_PER_HOST COLLECTIVE: prints lines "ranks series share" for the largest size. Share 1
# is reached if a call takes only the time of the payload on the links.
efficiency() {
  awk -v mbit="$2" -v per_host="$3" -v collective="$4" "$awk_payload"'
    { if ($2 > largest) largest = $2; us[$3, $1, $2] = $4; series[$3]; ranks[$1] }
    END { for (s in series) for (n in ranks) if ((s, n, largest) in us) {
        hosts = split(per_host, counts, "+"); min = counts[1]
        for (i = 2; i <= hosts; i++) if (counts[i] < min) min = counts[i]
        if (hosts == 1) hosts = n / per_host
        print n, s, payload(collective, hosts, min, n) * largest * 8 / mbit / us[s, n, largest], largest
      } }' "$1" | sort -k2,2 -k1,1n
}

for file; do
  name=$(basename -- "$file" .json) rate=$(text "$file" rate_mbit) machine=$(text "$file" machine)
  points "$file" >"$scratch/points"
  [[ -s $scratch/points ]] || fail "'$file' has no results in place"
  collective=$(text "$file" collective)
  collective=${collective:-allreduce}  # a file without this field has an allreduce
  article=a
  [[ $collective != all* ]] || article=an
  titles="collective='$article ${collective//_/-}'; machine='$machine'"
  draw times.gp "$folder/$name.svg" "$scratch/points" "$titles"
  [[ -n $rate ]] || continue
  per_host=$(text "$file" ranks_per_host)
  efficiency "$scratch/points" "$rate" "${per_host:-1}" "$collective" >"$scratch/shares"
  draw efficiency.gp "$folder/$name-efficiency.svg" "$scratch/shares" "$titles; rate='$rate'"
done
