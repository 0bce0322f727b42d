#!/usr/bin/env bash
# Prints recorded results as a Markdown table. For each size and number of ranks, it has our time in place, and the time
# of the fastest other library divided by our time. Results of several libraries also have its name.
set -euo pipefail
source "$(dirname -- "${BASH_SOURCE[0]}")/programs.sh"

usage() {
  cat <<TEXT
usage: bench/tables.sh FILE
  FILE  results that compare.sh -o or netns.sh -o has written, such as those in bench/results
TEXT
}

[[ ${1-} != -h ]] || { usage && exit; }
(($# == 1)) || { usage >&2 && exit 2; }
[[ -r $1 ]] || fail "'$1' cannot be read; compare.sh -o and netns.sh -o write such files"
awk '
  function value(name,   parts) {
    return split($0, parts, "\"" name "\":\\[?\"?") > 1 ? substr(parts[2], 1, match(parts[2], /["},\]]/) - 1) : ""
  }
  function label(bytes,   unit) {
    while (bytes >= 1024 && bytes % 1024 == 0 && unit < 3) { bytes /= 1024; unit++ }
    return bytes " " substr(" KMG", unit + 1, unit > 0) (unit ? "iB" : "B")
  }
  function microseconds(us) {
    if (us + 0 < 10) return sprintf("%.1f", us)
    us = sprintf("%.0f", us)
    return length(us) > 3 ? substr(us, 1, length(us) - 3) "," substr(us, length(us) - 2) : us
  }
  value("peer") != "" && !seen[value("peer")]++ { libraries++ }
  value("placement") == "in-place" && value("best_peer") == "true" {
    if (!(value("world") in column)) world[column[value("world")] = ++worlds] = value("world")
    if (!(value("size") in line)) size[line[value("size")] = ++sizes] = value("size")
    split(substr($0, index($0, "\"ratio_quartiles\":[") + 19), ends, /[],]/)
    cells[value("world"), value("size")] = sprintf(" %s | %.2f (%.2f-%.2f)", microseconds(value("anello_us")),
      value("ratio"), ends[1], ends[2])
    fastest[value("world"), value("size")] = value("peer")
  }
  END {
    head = "| |"; rule = "|---|"
    for (w = 1; w <= worlds; w++) { head = head " " world[w] " ranks: us | ratio |"; rule = rule "---:|---|" }
    print head; print rule
    for (s = 1; s <= sizes; s++) {
      row = "| " label(size[s]) " |"
      for (w = 1; w <= worlds; w++) {
        at = world[w] SUBSEP size[s]
        row = row (at in cells ? cells[at] (libraries > 1 ? " " fastest[at] : "") " |" : " | |")
      }
      print row
    }
  }' "$1"
