#!/bin/bash
# Grid Engine: qsub sge.sh. The parallel environment ("mpi" here) has a different name on each cluster: qconf -spl lists
# the names.
#$ -N anello
#$ -pe mpi 6
#$ -l h_rt=00:10:00
#$ -cwd -V
exec anello run -n "${NSLOTS:-6}" -- anello-train "$@"
