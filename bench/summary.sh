# Turns the pairs that pairs.sh measured into ratios, as a table, JSON and a plot. Sourced after programs.sh.
# A pair is a line "world placement size peer algorithm steady our_p50 our_mean peer_p50 peer_mean".
# shellcheck shell=bash disable=SC2154

# Prints, for each peer, the ratio with the algorithm that is fastest against ours. Pairs that are not steady (the
# machine's state changed during the pair) count only if no pair is steady. Prints "world placement size peer algorithm
# ours peers ratio low high other pairs best": medians and quartiles of p50, or of the mean in worlds of more than
# $mean_above ranks. `other` is the ratio by the mean instead of p50, or by p50 instead of the mean. best: 1 for the
# fastest peer.
summarize() {
  awk -v mean_above="$mean_above" "$awk_quantile"'
    function median(from, key, share,   i, n, v) {
      for (i = 1; i <= count[key]; i++) if (steady[key, i] || !any_steady[key]) v[++n] = from[key, i]
      pairs = n
      return quantile(v, n, share)
    }
    { key = $1 " " $2 " " $3 " " $4 " " $5; where[key] = $1 " " $2 " " $3; peer[key] = $4
      i = ++count[key]; steady[key, i] = $6; any_steady[key] += $6
      by_mean = $1 > mean_above
      ours[key, i] = by_mean ? $8 : $7; theirs[key, i] = by_mean ? $10 : $9
      ratio[key, i] = theirs[key, i] / ours[key, i]; other[key, i] = by_mean ? $9 / $7 : $10 / $8 }
    END {
      for (key in count) {
        r = median(ratio, key, 0.5); of = where[key] " " peer[key]
        if (!(of in least) || r < least[of]) { least[of] = r; chosen[of] = key }
        if (!(where[key] in best) || r < best[where[key]]) best[where[key]] = r
      }
      for (of in chosen) {
        key = chosen[of]
        print key, median(ours, key, 0.5), median(theirs, key, 0.5), least[of], median(ratio, key, 0.25),
          median(ratio, key, 0.75), median(other, key, 0.5), pairs, least[of] == best[where[key]]
      } }' | sort -k1,1n -k2,2 -k3,3n -k4,4
}

table() {
  awk -v mean_above="$mean_above" '
    function label(bytes,   unit) {
      while (bytes >= 1024 && bytes % 1024 == 0 && unit < 3) { bytes /= 1024; unit++ }
      return bytes substr("KMG", unit, unit > 0)
    }
    $1 " " $2 != part {
      part = $1 " " $2; last = ""
      by_mean = $1 > mean_above
      printf "\n%d ranks, %s, %s in us\n%8s  %-28s %11s %11s %7s  %-13s %8s\n", $1, $2, by_mean ? "mean" : "p50",
        "size", "peer", "anello", "peer", "ratio", "half of pairs", by_mean ? "by p50" : "by mean" }
    { printf "%8s %s %-28s %11.1f %11.1f %7.2f %6.2f - %4.2f %8.2f\n", $3 == last ? "" : label($3), $13 ? "*" : " ",
        $4 " " $5, $6, $7, $8, $9, $10, $11; last = $3 }'
}

to_json() {
  awk -v head="$1" -v mean_above="$mean_above" '
    function text(name, value) { return "\"" name "\":\"" value "\"," }
    function number(name, value) { return "\"" name "\":" value "," }
    BEGIN { printf "{\"config\":{%s},\"results\":[", head }
    { by_mean = $1 > mean_above
      printf "%s\n{%s%s%s%s%s%s%s%s%s%s%s%s\"ratio_quartiles\":[%s,%s]}", (NR > 1 ? "," : ""), number("world", $1),
        text("placement", $2), number("size", $3), text("peer", $4), text("algorithm", $5),
        text("statistic", (by_mean ? "mean" : "p50")), number("anello_us", $6), number("peer_us", $7),
        number("ratio", $8), number((by_mean ? "ratio_p50" : "ratio_mean"), $11), number("pairs", $12),
        number("best_peer", ($13 ? "true" : "false")), $9, $10 }
    END { print "\n]}" }'
}

# plot SUMMARY FILE: plots the ratios over size as SVG, with a panel for each world, if gnuplot is installed.
plot() {
  if ! command -v gnuplot >/dev/null; then
    echo "no plot: gnuplot is not here (Debian: apt-get install gnuplot-nox)"
  else
    gnuplot -e "data='$1'; picture='$2'" "$bench_root/bench/plot.gp"
  fi
}
