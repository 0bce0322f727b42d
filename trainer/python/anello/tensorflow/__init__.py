"""Horovod's interface for TensorFlow, on Anello: `import anello.tensorflow as hvd`.

    hvd.init()
    with tf.GradientTape() as tape: ...
    tape = hvd.DistributedGradientTape(tape)
    hvd.broadcast_variables(model.variables, root_rank=0)

Start the script with `anello run -n 4 -- python3 train.py`.
"""
import tensorflow as _tensorflow

from ..horovod import exceptions
from ..horovod import user_warning as _user_warning
from ..horovod.basics import (add_process_set, ccl_built, cross_rank, cross_size, cuda_built, ddl_built, gloo_built,
                              gloo_enabled, init, is_homogeneous, is_initialized, local_rank, local_size, mpi_built,
                              mpi_enabled, mpi_threads_supported, nccl_built, process_set_included, rank,
                              remove_process_set, rocm_built, shutdown, size, start_timeline, stop_timeline, world)
from ..horovod.process_sets import ProcessSet, global_process_set
from ..horovod.reductions import Adasum, Average, Max, Min, Product, ReduceOp, Sum
from . import elastic
from .callable_variables import make_callable as _make_callable
from .compression import Compression
from .errors import HorovodInternalError
from .objects import allgather_object, broadcast_object, broadcast_object_fn
from .optimizer import DistributedOptimizer
from .sync_batch_norm import SyncBatchNormalization
from .tape import DistributedGradientTape, PartialDistributedGradientTape
from .util import _executing_eagerly  # noqa: F401, scripts for Horovod import it from here
from .variables import (BroadcastGlobalVariablesHook, broadcast_, broadcast_global_variables, broadcast_variables)
from .verbs import (allgather, allreduce, alltoall, barrier, broadcast, grouped_allgather, grouped_allreduce,
                    grouped_reducescatter, join, local_rank_op, local_size_op, process_set_included_op, rank_op,
                    reducescatter, size_op)

_make_callable()
_user_warning.skip(_tensorflow.__file__)
__all__ = ["Adasum", "Average", "BroadcastGlobalVariablesHook", "Compression", "DistributedGradientTape",
           "DistributedOptimizer", "HorovodInternalError", "Max", "Min", "Parallel", "PartialDistributedGradientTape",
           "ProcessSet", "Product", "ReduceOp", "Sum", "SyncBatchNormalization", "add_process_set", "allgather",
           "allgather_object", "allreduce", "alltoall", "barrier", "broadcast", "broadcast_",
           "broadcast_global_variables", "broadcast_object", "broadcast_object_fn", "broadcast_variables", "ccl_built",
           "cross_rank", "cross_size", "cuda_built", "ddl_built", "elastic", "exceptions", "global_process_set",
           "gloo_built", "gloo_enabled", "grouped_allgather", "grouped_allreduce", "grouped_reducescatter", "init",
           "is_homogeneous", "is_initialized", "join", "local_rank", "local_rank_op", "local_size", "local_size_op",
           "mpi_built", "mpi_enabled", "mpi_threads_supported", "nccl_built", "parallelize", "process_set_included",
           "process_set_included_op", "rank", "rank_op", "reducescatter", "remove_process_set", "rocm_built",
           "shutdown", "size", "size_op", "start_timeline", "stop_timeline", "world"]

from .keras.parallel import Parallel, parallelize  # noqa: E402  (this and the next import use names defined above)
from . import mpi_ops  # noqa: E402,F401
