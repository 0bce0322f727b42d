"""Horovod's module of operations, for scripts that import from it: from anello.torch.mpi_ops import allreduce_."""
from . import *  # noqa: F403
from ..horovod import basics as _basics  # noqa: F401  (also of Horovod: scripts look into it)
