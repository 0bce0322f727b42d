#!/bin/bash
# Cobalt: qsub cobalt.sh; interactive: qsub -I -n 3 -t 00:10:00, and then the last line. The script runs on the first host.
#COBALT -n 3
#COBALT -t 00:10:00
exec anello run --hostfile "${COBALT_NODEFILE:?is set in jobs of Cobalt}" -N 2 -- anello-train "$@"
