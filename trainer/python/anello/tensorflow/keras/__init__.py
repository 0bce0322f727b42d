"""Horovod's interface for Keras, on Anello: `import anello.tensorflow.keras as hvd`.

    hvd.init()
    optimizer = hvd.DistributedOptimizer(tf.keras.optimizers.Adam(0.001 * hvd.size()))
    model.compile(optimizer=optimizer, loss="mse")
    model.fit(data, callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0)])

`tf.keras` decides which Keras is used: Keras 3, or Keras 2 if TF_USE_LEGACY_KERAS=1 is set and tf-keras is installed.
Start the script with `anello run -n 4 -- python3 train.py`.
"""
import tensorflow as _tensorflow

from ...horovod import exceptions
from ...horovod import user_warning as _user_warning
from .. import (Adasum, Average, Compression, HorovodInternalError, Max, Min, ProcessSet, Product, Sum, add_process_set,
                allgather_object, broadcast_global_variables, broadcast_object, broadcast_variables, ccl_built,
                cross_rank, cross_size, cuda_built, ddl_built, global_process_set, gloo_built, gloo_enabled, init,
                is_homogeneous, is_initialized, join, local_rank, local_size, mpi_built, mpi_enabled,
                mpi_threads_supported, nccl_built, rank, remove_process_set, rocm_built, shutdown, size, start_timeline,
                stop_timeline, world)
from . import callbacks, elastic
from .models import load_model
from .optimizer import DistributedOptimizer, PartialDistributedOptimizer
from .parallel import Parallel, parallelize
from .values import allgather, allreduce, broadcast, reducescatter

_user_warning.skip(_tensorflow.keras.__file__)
__all__ = ["Adasum", "Average", "Compression", "DistributedOptimizer", "HorovodInternalError", "Max", "Min", "Parallel",
           "PartialDistributedOptimizer", "ProcessSet", "Product", "Sum", "add_process_set", "allgather",
           "allgather_object", "allreduce", "broadcast", "broadcast_global_variables", "broadcast_object",
           "broadcast_variables", "callbacks", "ccl_built", "cross_rank", "cross_size", "cuda_built", "ddl_built",
           "elastic", "exceptions", "global_process_set", "gloo_built", "gloo_enabled", "init", "is_homogeneous",
           "is_initialized", "join", "load_model", "local_rank", "local_size", "mpi_built", "mpi_enabled",
           "mpi_threads_supported", "nccl_built", "parallelize", "rank", "reducescatter", "remove_process_set",
           "rocm_built", "shutdown", "size", "start_timeline", "stop_timeline", "world"]
