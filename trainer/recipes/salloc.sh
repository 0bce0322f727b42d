#!/bin/bash
# Slurm, in an allocation: bash salloc.sh [options of anello-train]
# Without a command, salloc opens a shell. In this shell, `srun anello-train` and `anello run -n 6 -- anello-train` use
# all hosts of the allocation. A program that is started directly in the shell is a world of one rank.
exec salloc --quiet --nodes=3 --ntasks-per-node=2 --time=00:10:00 srun anello-train "$@"
