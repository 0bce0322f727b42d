# Plots the time of a call over its size, with a panel for each number of ranks and a line for each library. pictures.sh
# calls gnuplot -e "data='POINTS'; collective='an allreduce'; machine='TEXT'; picture='FILE.svg'" times.gp. A line of
# data is "ranks bytes series us".
worlds = system("sort -n -u -k1,1 '" . data . "' | awk '{ print $1 }'")
series = system("awk '!seen[$3]++ { print $3 }' '" . data . "'")
of(world, name) = sprintf("< awk '$1 == %s && $3 == \"%s\"' '%s'", world, name, data)

set terminal svg size 400 * words(worlds), 380 font "sans-serif,12" background "white"
set output picture
set multiplot layout 1, words(worlds) title "Time of " . collective . " of floats, in place (" . machine . ")"
set logscale x 2
set logscale y
set xtics ("4" 4, "64" 64, "1K" 2**10, "16K" 2**14, "256K" 2**18, "4M" 2**22, "64M" 2**26, "1G" 2**30)
set format y "%g"
set grid
set mxtics 1
set mytics 1
set key top left
set xlabel "bytes"
set ylabel "microseconds"
do for [world in worlds] {
  set title world . " ranks"
  plot for [i=1:words(series)] of(world, word(series, i)) using 2:4 with linespoints linewidth 1.5 pointtype 7 \
    pointsize 0.5 title word(series, i)
}
