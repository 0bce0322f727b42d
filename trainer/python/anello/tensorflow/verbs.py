"""The operations that scripts call, for tensors, variables, and tf.IndexedSlices.

Outside of graphs the operations wait for their result; in a graph they are nodes. Gradients are supported, except for
minima, maxima and products. The arguments for devices are accepted and not needed. Operations of different ranks match
by their names; operations without a name are numbered; in a graph they are named after their tensor.
"""
from __future__ import annotations

from typing import Any, List, Optional, Sequence, Tuple, Union

import tensorflow as tf
from tensorflow import IndexedSlices

from ..horovod import basics
from ..horovod.process_sets import ProcessSet, global_process_set, set_with_id
from ..horovod.reductions import Average, Max, Min, Product, reduction
from . import operations
from .compression import Compression, allreduces, compressed
from .eager import preparing
from .graph import size_of
from .library import number, ops
from .reduction import Reduction

Tensor = Union[tf.Tensor, tf.Variable, Any]
_as_written = tf.autograph.experimental.do_not_convert  # for functions that do not depend on values of tensors


@_as_written
def allreduce(tensor: Union[Tensor, tf.IndexedSlices], average: Optional[bool] = None, device_dense: str = "",
              device_sparse: str = "", compression: Any = Compression.none, op: Optional[int] = None,
              prescale_factor: float = 1.0, postscale_factor: float = 1.0, name: Optional[str] = None,
              process_set: ProcessSet = global_process_set, ignore_name_scope: bool = False) -> Any:
    """The reduction of a tensor over all ranks, as a new tensor.

    For tf.IndexedSlices, values and indices are gathered. This is only possible for sums and averages without factors.

    Args:
        average: older form of `op`: True for Average, False for Sum.
        compression: Compression.none, .fp16, .bf16, or an object with compress() and decompress().
        op: Average (the default), Sum, Min, Max or Product. Averages of integers are truncated, but averages of
            tf.IndexedSlices are floats, as in Horovod.
        prescale_factor, postscale_factor: factors for the tensor and for the result, the same on all ranks. Integers
            are multiplied in float64 and truncated.
        ignore_name_scope: in a graph, the operation's name does not contain the names of scopes.

    Outside of graphs raises HorovodInternalError if a rank has failed, or if ranks differ in shapes, types or
    arguments. If ranks differ, the error is also a tf.errors.FailedPreconditionError, and later operations still work.
    A graph raises tf.errors.InternalError if a rank has failed.
    """
    return _allreduce([tensor], average, compression, op, prescale_factor, postscale_factor, process_set,
                      ignore_name_scope, name)[0]


@_as_written
def grouped_allreduce(tensors: Sequence[Union[Tensor, tf.IndexedSlices]], average: Optional[bool] = None,
                      device_dense: str = "", device_sparse: str = "", compression: Any = Compression.none,
                      op: Optional[int] = None, prescale_factor: float = 1.0, postscale_factor: float = 1.0,
                      process_set: ProcessSet = global_process_set, ignore_name_scope: bool = False,
                      name: Optional[str] = None) -> Any:
    """The reduction of each tensor of a list. The list is one operation; the tf.IndexedSlices in the list are a second
    operation."""
    return _allreduce(tensors, average, compression, op, prescale_factor, postscale_factor, process_set,
                      ignore_name_scope, name)


def _allreduce(tensors: Any, average: Optional[bool], compression: Any, op: Optional[int], prescale: float,
               postscale: float, process_set: ProcessSet, ignore_name_scope: bool, name: Optional[str]) -> List[Any]:
    with preparing("allreduce", name, process_set):
        every = list(tensors)
    sparse = [each for each in every if isinstance(each, IndexedSlices)]
    # Other ranks wait in the first of the two operations. If the first one fails, these ranks do not come to the second
    # one.
    first = ("allgather", _of_slices(name)) if sparse else ("allreduce", name)
    with preparing(*first, process_set):
        how = Reduction(reduction(op, average), process_set, prescale, postscale, ignore_name_scope=ignore_name_scope)
        dense = _tensors(each for each in every if not isinstance(each, IndexedSlices))
    if not sparse:
        return allreduces([dense], how, [name], compression)[0] if dense else []
    made_sparse = iter(sparse_allreduce(sparse, how, _of_slices(name)))
    made_dense = iter(allreduces([dense], how, [name], compression)[0] if dense else ())
    return [next(made_sparse if isinstance(each, IndexedSlices) else made_dense) for each in every]


def sparse_allreduce(slices: Sequence[tf.IndexedSlices], how: Reduction, name: Optional[str]) -> List[tf.IndexedSlices]:
    """Gathers values and indices of all ranks. An index may then occur several times; this means the sum of its
    values."""
    with preparing("allgather", name, how.process_set):
        if how.op in (Min, Max, Product) or how.prescale != 1 or how.postscale != 1:
            raise NotImplementedError("tf.IndexedSlices can be summed and averaged, without factors: give "
                                      "sparse_as_dense=True or tf.convert_to_tensor(it)")
        parts = _tensors(part for each in slices for part in (each.values, each.indices))
    gathered = operations.allgather(parts, how.process_set, name, how.ignore_name_scope)
    made = []
    for each, values, indices in zip(slices, gathered[::2], gathered[1::2]):
        if how.op == Average:
            values = values / tf.cast(size_of(how.process_set), values.dtype)
        made.append(tf.IndexedSlices(values, indices, each.dense_shape))
    return made


def _of_slices(name: Optional[str]) -> Optional[str]:
    return name and f"{name}_sparse"


@_as_written
def allgather(tensor: Tensor, name: Optional[str] = None, ignore_name_scope: bool = False,
              process_set: ProcessSet = global_process_set) -> tf.Tensor:
    """The tensors of all ranks, concatenated; their first dimensions may differ."""
    return grouped_allgather([tensor], name, ignore_name_scope, process_set)[0]


@_as_written
def grouped_allgather(tensors: Sequence[Tensor], name: Optional[str] = None, ignore_name_scope: bool = False,
                      process_set: ProcessSet = global_process_set) -> List[tf.Tensor]:
    """For each tensor of a list, the tensors of all ranks, concatenated. The list is one operation."""
    with preparing("allgather", name, process_set):
        given = _tensors(tensors)
    return operations.allgather(given, process_set, name, ignore_name_scope) if given else []


@_as_written
def broadcast(tensor: Tensor, root_rank: int, name: Optional[str] = None, ignore_name_scope: bool = False,
              process_set: ProcessSet = global_process_set) -> tf.Tensor:
    """The root's tensor, as a new tensor. `root_rank` is a rank of the world."""
    with preparing("broadcast", name, process_set):
        given = _tensors([tensor])
    return operations.broadcast(given, root_rank, process_set, name, ignore_name_scope)[0]


@_as_written
def alltoall(tensor: Tensor, splits: Any = None, name: Optional[str] = None, ignore_name_scope: bool = False,
             process_set: ProcessSet = global_process_set) -> Union[tf.Tensor, Tuple[tf.Tensor, tf.Tensor]]:
    """Exchanges rows: splits[r] rows go to rank r of the process set. The splits must add up to all rows.

    Without splits the parts are equal, and the result is the received rows. With splits the result is a pair: the rows,
    and the number of rows from each rank.
    """
    with preparing("alltoall", name, process_set):
        parts = tf.constant([], tf.int32) if splits is None else tf.cast(tf.convert_to_tensor(splits), tf.int32)
        given = _tensor(tensor)
    output, received = operations.alltoall(given, parts, process_set, name, ignore_name_scope)
    return output if splits is None else (output, received)


@_as_written
def reducescatter(tensor: Tensor, device_dense: str = "", compression: Any = Compression.none,
                  op: Optional[int] = Average, name: Optional[str] = None,
                  process_set: ProcessSet = global_process_set, ignore_name_scope: bool = False,
                  prescale_factor: float = 1.0, postscale_factor: float = 1.0) -> tf.Tensor:
    """This rank's rows of the reduction. If rows are left over, the first ranks get one more."""
    return _reducescatter([tensor], name, compression, op, process_set, prescale_factor, postscale_factor,
                          ignore_name_scope)[0]


@_as_written
def grouped_reducescatter(tensors: Sequence[Tensor], device_dense: str = "", compression: Any = Compression.none,
                          op: Optional[int] = Average, process_set: ProcessSet = global_process_set,
                          prescale_factor: float = 1.0, postscale_factor: float = 1.0) -> Any:
    """For each tensor of a list, this rank's rows of its reduction. The list is one operation."""
    return _reducescatter(tensors, None, compression, op, process_set, prescale_factor, postscale_factor)


def _reducescatter(tensors: Sequence[Tensor], name: Optional[str], compression: Any, op: Optional[int],
                   process_set: ProcessSet, prescale: float, postscale: float,
                   ignore_name_scope: bool = False) -> List[tf.Tensor]:
    with preparing("reduce_scatter", name, process_set):
        given = _tensors(tensors)
        how = Reduction(reduction(op, refused=(Min, Max, Product), of="reducescatter"), process_set, prescale,
                        postscale, ignore_name_scope=ignore_name_scope)

    def reduce(lists: Any) -> Any:
        return [operations.reducescatter(each, how, name) for each in lists]

    return compressed(reduce, [given], compression,
                      preparing("reduce_scatter", name, process_set))[0] if given else []


@_as_written
def join() -> tf.Tensor:
    """For a rank without more data: it takes part in the others' allreduces with zeros until all ranks have joined.

    The result is the rank that joined last, the same on all ranks.
    """
    return tf.constant(basics.join()) if tf.executing_eagerly() else ops.anello_join()


@_as_written
def barrier(process_set: ProcessSet = global_process_set) -> Optional[tf.Operation]:
    """The barrier is done when all ranks of the set have called it. It does not wait for operations that are under
    way."""
    if tf.executing_eagerly():
        basics.barrier(process_set)
        return None
    return ops.anello_barrier(process_set=number(process_set))


def rank_op(name: Optional[str] = None) -> tf.Tensor:
    """This process's number as an int32, read when a graph runs. The following functions do the same."""
    return ops.anello_rank(name=name)


def local_rank_op(name: Optional[str] = None) -> tf.Tensor:
    """This process's number among those of its host."""
    return ops.anello_local_rank(name=name)


def size_op(process_set_id: int = 0, name: Optional[str] = None) -> tf.Tensor:
    """The number of processes of a set."""
    return ops.anello_size(process_set=_number_of(process_set_id), name=name)


def local_size_op(name: Optional[str] = None) -> tf.Tensor:
    """The number of processes on this host."""
    return ops.anello_local_size(name=name)


def process_set_included_op(process_set_id: int = 0, name: Optional[str] = None) -> tf.Tensor:
    """1 if this process belongs to a set, otherwise 0."""
    return ops.anello_process_set_included(process_set=_number_of(process_set_id), name=name)


def _number_of(process_set_id: int) -> int:
    """Returns the set's number. The number of the set of all ranks is always the same: graphs may use it before
    init()."""
    return number(set_with_id(process_set_id)) if process_set_id else 0


for _op in ("AnelloRank", "AnelloLocalRank", "AnelloSize", "AnelloLocalSize", "AnelloProcessSetIncluded", "AnelloJoin",
            "AnelloBarrier"):
    tf.no_gradient(_op)


def _tensors(given: Any) -> List[tf.Tensor]:
    return [_tensor(each) for each in given]


def _tensor(given: Any) -> tf.Tensor:
    if isinstance(given, tf.Tensor):
        return given
    if isinstance(given, (tf.SparseTensor, tf.RaggedTensor)):
        dense = "tf.sparse.to_dense(it)" if isinstance(given, tf.SparseTensor) else "its to_tensor()"
        raise TypeError(f"a {type(given).__name__} cannot be sent: give {dense}, or hvd.allgather() each of its parts")
    return tf.convert_to_tensor(given)
