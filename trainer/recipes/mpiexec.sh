#!/bin/bash
# MPICH's mpiexec (also Intel MPI's): HOSTS=node1,node2 bash mpiexec.sh [options of anello-train]
# The program does not use MPI. Ranks meet through PMI, which mpiexec offers.
IFS=, read -ra hosts <<<"${HOSTS:-h0,h1,h2}"
printf -v list '%s:2,' "${hosts[@]}"
exec "$(command -v mpiexec.mpich || echo mpiexec)" -hosts "${list%,}" -n $((2 * ${#hosts[@]})) anello-train "$@"
