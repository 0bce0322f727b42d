#!/bin/bash
# PBS: qsub pbs.sh; interactive: qsub -I -l select=3:ncpus=2:mpiprocs=2 -l walltime=00:10:00, and then the last line
#PBS -N anello
#PBS -l select=3:ncpus=2:mpiprocs=2
#PBS -l walltime=00:10:00
cd "${PBS_O_WORKDIR:-.}" || exit
exec anello run -n 6 -- anello-train "$@"
