# Plots how much of the links' rate a collective uses over the number of ranks, with a line for each library.
# pictures.sh calls gnuplot -e "data='SHARES'; collective='an allreduce'; machine='TEXT'; rate='MBIT';
# picture='FILE.svg'" efficiency.gp. A line of data is "ranks series share bytes".
series = system("awk '!seen[$2]++ { print $2 }' '" . data . "'")
bytes = system("awk '{ print $4; exit }' '" . data . "'")
of(name) = sprintf("< awk '$2 == \"%s\"' '%s'", name, data)

set terminal svg size 640, 380 font "sans-serif,12" background "white"
set output picture
set title sprintf("Rate used by %s of %s bytes, of links of %s Mbit/s\n{/*0.8 %s}", collective, bytes, rate, machine)
set yrange [0:110]
set offsets graph 0.05, graph 0.05, 0, 0
set grid
set key bottom right
set xlabel "ranks"
set ylabel "% of the links' rate"
set xtics 1
plot for [i=1:words(series)] of(word(series, i)) using 1:(100 * $3) with linespoints linewidth 1.5 pointtype 7 \
  pointsize 0.5 title word(series, i)
