"""Horovod's module of operations, for scripts that import from it: from anello.torch.mpi_ops import allreduce_."""
from . import *  # noqa: F401,F403
