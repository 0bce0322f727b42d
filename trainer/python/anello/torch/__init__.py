"""Horovod's interface for PyTorch, on Anello: `import anello.torch as hvd`.

    hvd.init()
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)

Start the script with `anello run -n 4 -- python3 train.py`.
"""
import torch as _torch

from .. import errors as _errors
from ..horovod import basics as _basics
from ..horovod import exceptions
from ..horovod import user_warning as _user_warning
from ..horovod.basics import (add_process_set, barrier, ccl_built, cross_rank, cross_size, cuda_built, ddl_built,
                              gloo_built, gloo_enabled, init, is_homogeneous, is_initialized, join, local_rank,
                              local_size, mpi_built, mpi_enabled, mpi_threads_supported, nccl_built,
                              process_set_included, rank, remove_process_set, rocm_built, shutdown, size,
                              start_timeline, stop_timeline, world)
from ..horovod.objects import allgather_object, broadcast_object
from ..horovod.process_sets import ProcessSet, global_process_set
from ..horovod.reductions import Adasum, Average, Max, Min, Product, ReduceOp, Sum
from . import elastic, gpus as _gpus
from .autograd import (allgather, allreduce, allreduce_, alltoall, broadcast, broadcast_, grouped_allgather,
                       grouped_allreduce, grouped_allreduce_, grouped_reducescatter, reducescatter)
from .compression import Compression
from .distributed_optimizer import DistributedOptimizer
from .functions import broadcast_optimizer_state, broadcast_parameters
from .ops import (allgather_async, allreduce_async, allreduce_async_, alltoall_async, broadcast_async, broadcast_async_,
                  grouped_allgather_async, grouped_allreduce_async, grouped_allreduce_async_,
                  grouped_reducescatter_async, poll, reducescatter_async, sparse_allreduce_async, synchronize)
from .parallel import Parallel, parallelize
from .sync_batch_norm import SyncBatchNorm

_basics.use_gpus(_gpus)
_user_warning.skip(_torch.__file__)
HorovodInternalError = _errors.Error
__all__ = ["Adasum", "Average", "Compression", "DistributedOptimizer", "HorovodInternalError", "Max", "Min",
           "Parallel", "ProcessSet", "Product", "ReduceOp", "Sum", "SyncBatchNorm", "add_process_set", "allgather",
           "allgather_async", "allgather_object", "allreduce", "allreduce_", "allreduce_async", "allreduce_async_",
           "alltoall", "alltoall_async", "barrier", "broadcast", "broadcast_", "broadcast_async", "broadcast_async_",
           "broadcast_object", "broadcast_optimizer_state", "broadcast_parameters", "ccl_built", "cross_rank",
           "cross_size", "cuda_built", "ddl_built", "elastic", "exceptions", "global_process_set", "gloo_built",
           "gloo_enabled", "grouped_allgather", "grouped_allgather_async", "grouped_allreduce", "grouped_allreduce_",
           "grouped_allreduce_async", "grouped_allreduce_async_", "grouped_reducescatter",
           "grouped_reducescatter_async", "init", "is_homogeneous", "is_initialized", "join", "local_rank",
           "local_size", "mpi_built", "mpi_enabled", "mpi_threads_supported", "nccl_built", "parallelize", "poll",
           "process_set_included", "rank", "reducescatter", "reducescatter_async", "remove_process_set", "rocm_built",
           "shutdown", "size", "sparse_allreduce_async", "start_timeline", "stop_timeline", "synchronize", "world"]

from . import mpi_ops  # noqa: E402,F401  (this module uses names defined above)
