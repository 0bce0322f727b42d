#!/bin/bash
# LSF: bsub < lsf.sh
#BSUB -J anello
#BSUB -n 6
#BSUB -R "span[ptile=2]"
#BSUB -W 00:10
exec anello run -n 6 -- anello-train "$@"
