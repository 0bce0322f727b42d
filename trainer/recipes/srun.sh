#!/bin/bash
# Slurm, at once: bash srun.sh [options of anello-train]
# For a shell on a compute node: srun --nodes=1 --ntasks=6 --pty bash; then: anello run -n 6 -- anello-train
# If a cluster has no munge: use srun --mpi=pmi2 or --mpi=pmix, or run `anello secret` once.
exec srun --nodes=3 --ntasks-per-node=2 --time=00:10:00 anello-train "$@"
