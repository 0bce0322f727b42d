# Plots the ratios of compare.sh over size, with a panel for each world and a line for each peer: gnuplot -e
# "data='SUMMARY'; picture='FILE.svg'" plot.gp
# A line of data is "world placement size peer algorithm ours peers ratio low high ..."; only in-place calls are drawn.
worlds = system("awk '!seen[$1]++ { print $1 }' '" . data . "'")
peers = system("awk '!seen[$4]++ { print $4 }' '" . data . "' | sort")
of(world, peer) = sprintf("< awk '$1 == %s && $2 == \"in-place\" && $4 == \"%s\"' '%s'", world, peer, data)

set terminal svg size 640, 360 * words(worlds) font "sans-serif,12" background "white"
set output picture
set multiplot layout words(worlds), 1
set logscale x 2
set logscale y
set xtics ("4" 4, "64" 64, "1K" 2**10, "16K" 2**14, "256K" 2**18, "4M" 2**22, "64M" 2**26, "1G" 2**30)
set ytics (0.25, 0.5, 1, 1.5, 2, 3, 5, 10, 20, 50, 100)
set grid ytics
set offsets graph 0.05, graph 0.05, graph 0.1, graph 0.1
set key outside right
set ylabel "peer's time / anello's"
do for [world in worlds] {
  set title world . " ranks, in place, float sum: median and quartiles"
  plot 1 with lines linecolor "black" notitle, \
    for [i=1:words(peers)] of(world, word(peers, i)) using 3:8:9:10 with yerrorlines linewidth 1.5 pointtype 7 \
      pointsize 0.5 title word(peers, i)
}
