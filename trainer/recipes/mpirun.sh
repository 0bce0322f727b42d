#!/bin/bash
# Open MPI's mpirun: HOSTS=node1,node2 bash mpirun.sh [options of anello-train]
# The program does not use MPI. Ranks meet through PMIx, which mpirun offers. In an allocation, mpirun needs no -H.
# The program is given by its full path, because on other hosts mpirun uses the PATH of ssh. If the program has another
# path on the other hosts, use: -x PATH anello-train.
IFS=, read -ra hosts <<<"${HOSTS:-h0,h1,h2}"
printf -v list '%s:2,' "${hosts[@]}"
as_root=()
((EUID != 0)) || as_root=(--allow-run-as-root)
exec "$(command -v mpirun.openmpi || echo mpirun)" "${as_root[@]}" -H "${list%,}" -n $((2 * ${#hosts[@]})) \
  "$(command -v anello-train)" "$@"
