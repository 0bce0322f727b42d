"""Operations outside of graphs. They are submitted and waited for in Python, so Ctrl-C interrupts them.

A function starts its operation, and returns one that waits for the result, so that several can go on at once.
"""
from __future__ import annotations

from typing import Any, Callable, List, Optional, Sequence, Tuple

import tensorflow as tf

from ..agenda import Agenda, Operation
from ..errors import InvalidArgument
from ..horovod.process_sets import ProcessSet, require_set
from ..horovod.reductions import engine_op
from ..horovod.refusals import submitting
from . import host
from .errors import as_tensorflow
from .reduction import Reduction

Tensors = Sequence[tf.Tensor]
Wait = Callable[[], List[tf.Tensor]]


class preparing(submitting):
    """A block before operations are submitted: if it fails, they fail on the other ranks too. Nothing in a graph.

    Args:
        names: of those that the other ranks submit, in order.
    """

    def __init__(self, verb: str, names: Sequence[Optional[str]], process_set: ProcessSet) -> None:
        super().__init__(verb, names[0] if names else None, process_set, names[1:])
        self._are_submitted = bool(names)

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if error is not None and self._are_submitted and tf.executing_eagerly():
            super().__exit__(kind, error, trace)


def allreduce(tensors: Tensors, how: Reduction, name: Optional[str], waits: bool = True,
              later: Sequence[Optional[str]] = ()) -> Wait:
    """Starts the reduction of a list, which is one operation.

    Args:
        waits: the caller waits at once, which takes less time.
        later: as in submitting().
    """
    with as_tensorflow(), submitting("allreduce", name, how.process_set, later):
        given = _given(tensors)
        made = [host.Made(each, tensor.dtype, each.shape) for each, tensor in zip(given, tensors)]
        operation = _agenda(how.process_set).allreduce(
            given, [each.view for each in made], engine_op(how.op), name=name, prescale=how.prescale,
            postscale=how.postscale, wire=how.wire, waits=waits)
    return _result(operation, lambda _: [each.tensor() for each in made])


def reducescatter(tensors: Tensors, how: Reduction, name: Optional[str]) -> Wait:
    """Starts the reduction of a list of which each rank gets its rows."""
    with as_tensorflow(), submitting("reduce_scatter", name, how.process_set):
        operation = _agenda(how.process_set).reduce_scatter(
            _given(tensors), engine_op(how.op), name=name, prescale=how.prescale, postscale=how.postscale, waits=True)
    return _result(operation, lambda made: host.copied(made, _types(tensors)))


def allgather(tensors: Tensors, process_set: ProcessSet, name: Optional[str]) -> Tuple[Wait, Callable[[], Any]]:
    """Starts to gather a list. The second function returns the rows of each rank, for each tensor."""
    with as_tensorflow(), submitting("allgather", name, process_set):
        operation = _agenda(process_set).allgather(_given(tensors), name=name, waits=True)

    def rows() -> List[Tuple[int, ...]]:
        return [operation.rows(index, process_set.size()) for index in range(len(tensors))]

    return _result(operation, lambda made: host.copied(made, _types(tensors))), rows


def broadcast(tensors: Tensors, root_rank: int, process_set: ProcessSet, name: Optional[str],
              waits: bool = True) -> Wait:
    """Starts to copy the root's tensors."""
    with as_tensorflow(), submitting("broadcast", name, process_set):
        given = _given(tensors)
        made = [host.Made(each, tensor.dtype, each.shape) for each, tensor in zip(given, tensors)]
        agenda = _agenda(process_set)
        root = _root(root_rank, process_set)
        if root == process_set.rank():
            for each, its in zip(made, given):
                each.fill(its)
        operation = agenda.broadcast([each.view for each in made], root, name=name, waits=waits)
    return _result(operation, lambda _: [each.tensor() for each in made])


def alltoall(tensor: tf.Tensor, splits: tf.Tensor, process_set: ProcessSet, name: Optional[str]) -> Wait:
    """Starts the exchange of rows. The result is the rows that came, and how many came from each rank."""
    with as_tensorflow(), submitting("alltoall", name, process_set):
        rows = splits.numpy().tolist() or None
        operation = _agenda(process_set).alltoall(_given([tensor])[0], rows, name=name, waits=True)

    def result(made: Any) -> List[tf.Tensor]:
        output, received = made
        return [*host.copied([output], [tensor.dtype]), tf.constant(received, tf.int32, (len(received),))]

    return _result(operation, result)


def _given(tensors: Tensors) -> List[Any]:
    return [host.view(each) for each in tensors]


def _types(tensors: Tensors) -> List[tf.DType]:
    return [each.dtype for each in tensors]


def _agenda(process_set: ProcessSet) -> Agenda:
    try:
        return require_set(process_set).agenda
    except ValueError as error:
        raise InvalidArgument(str(error), "invalid_argument") from None


def _root(root_rank: int, process_set: ProcessSet) -> int:
    try:
        return process_set.rank_of(root_rank)
    except ValueError as error:
        raise InvalidArgument(f"root_rank: {error}", "invalid_argument") from None


def _result(operation: Operation, make: Callable[[Any], List[tf.Tensor]]) -> Wait:
    def wait() -> List[tf.Tensor]:
        with as_tensorflow():
            return make(operation.wait())

    return wait
