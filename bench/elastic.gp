# Plots an elastic training over time: the number of ranks, the loss, and the pauses. elastic.sh calls gnuplot -e
# "data='POINTS'; machine='TEXT'; picture='FILE.svg'" elastic.gp. A line of data is "world seconds ranks paused_ms",
# "epoch seconds loss", or at the end "end seconds difference".
of(kind) = sprintf("< awk '$1 == \"%s\"' '%s'", kind, data)
last = real(system("awk '$1 == \"end\" { print $2 }' '" . data . "'"))
difference = real(system("awk '$1 == \"end\" { print $3 }' '" . data . "'"))
# The last world lasts until the end.
ranks = sprintf("< awk '$1 == \"world\" { n = $3; print $2, n } $1 == \"end\" { print $2, n }' '%s'", data)

set terminal svg size 640, 520 font "sans-serif,12" background "white"
set output picture
set multiplot layout 3, 1 title "An elastic training of the digits\n{/*0.8 " . machine . "}"
set xrange [0:last]
set lmargin 10
set grid
set yrange [0:9]
set ylabel "ranks"
plot ranks using 1:2 with steps linewidth 1.5 notitle
set autoscale y
set logscale y
set format y "%g"
set ylabel "loss"
set key top right
plot of("epoch") using 2:3 with linespoints linewidth 1.5 pointtype 7 pointsize 0.3 \
  title sprintf("differs by at most %.1e from an undisturbed training", difference)
unset logscale y
set yrange [0:*]
set ylabel "pause, ms"
set xlabel "seconds"
plot of("world") using 2:4 with impulses linewidth 2 notitle
