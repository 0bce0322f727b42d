#!/bin/bash
# Two nodes with four ranks each: sbatch slurm.sh
#SBATCH --job-name=digits
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=4
#SBATCH --cpus-per-task=1
#SBATCH --time=00:10:00
set -euo pipefail
python=${PYTHON:-python3}  # a Python that has torch and anello
cd "${SLURM_SUBMIT_DIR:-.}"

# anello run takes the hosts and their slots from the allocation, and starts the ranks with srun.
anello run -n "${SLURM_NTASKS:?this is a script for sbatch}" -- "$python" torch_digits.py
