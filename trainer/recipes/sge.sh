#!/bin/bash
# Grid Engine: qsub sge.sh. The parallel environment has a different name on each cluster: qconf -spl lists them.
#$ -N anello
#$ -pe mpi 6
#$ -l h_rt=00:10:00
#$ -cwd -V
exec anello run -n "${NSLOTS:-6}" -- anello-train "$@"
