"""Horovod's module of operations, for scripts that import from it: from anello.tensorflow.mpi_ops import allgather."""
from . import *  # noqa: F401,F403
