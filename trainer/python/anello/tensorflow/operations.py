"""The operations on lists of tensors, with their gradients: one list is one operation.

Outside of graphs they are those of eager.py, and recorded for the tapes that there are. In graphs they are nodes of the
library's operations.
"""
from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import tensorflow as tf
from tensorflow.python.eager import record

from ..horovod import basics
from ..horovod.process_sets import ProcessSet, set_with_id
from ..horovod.reductions import Average, ReduceOp, Sum
from . import eager
from .graph import options
from .library import ops
from .reduction import Reduction

Tensors = Sequence[tf.Tensor]


def allreduce(tensors: Tensors, how: Reduction, name: Optional[str] = None) -> List[tf.Tensor]:
    """The reduction of each tensor over the ranks. The gradient of a sum or average is that of the gradients.

    NotImplementedError if that of another reduction is asked for.
    """
    return allreduces([tensors], how, [name])[0]


def allreduces(lists: Sequence[Tensors], how: Reduction, names: Sequence[Optional[str]]) -> List[List[tf.Tensor]]:
    """Several reductions that go on at once, one for each list."""
    if not tf.executing_eagerly():
        return [list(ops.anello_allreduce(tensors=tensors, **_attributes(how), wire=how.wire or "",
                                          **options("allreduce", tensors[0], name, how.process_set,
                                                    how.ignore_name_scope)))
                for tensors, name in zip(lists, names)]
    waits = [eager.allreduce(tensors, how, names[k], waits=len(lists) == 1, later=names[k + 1:])
             for k, tensors in enumerate(lists)]
    return [_recorded(wait(), tensors, lambda *gradients: _reduced(gradients, how))
            for wait, tensors in zip(waits, lists)]


@tf.RegisterGradient("AnelloAllreduce")
def _allreduce_gradient(op: tf.Operation, *gradients: Any) -> List[Any]:
    return [*_reduced(_complete(op.outputs, gradients), _reduction(op)), None]


def _reduced(gradients: Tensors, how: Reduction) -> List[tf.Tensor]:
    if how.op not in (Average, Sum):
        raise NotImplementedError(f"allreduce with op=hvd.{how.op.name} has no gradient: use hvd.Average or hvd.Sum, or "
                                  "tf.stop_gradient() of its result")
    return allreduce(gradients, how)


def reducescatter(tensors: Tensors, how: Reduction, name: Optional[str] = None) -> List[tf.Tensor]:
    """This rank's rows of each reduction. Gradients are gathered; those of a sum count once for each rank."""
    if tf.executing_eagerly():
        return _recorded(eager.reducescatter(tensors, how, name)(), tensors,
                         lambda *gradients: _gathered(gradients, how))
    return list(ops.anello_reducescatter(tensors=tensors, **_attributes(how),
                                         **options("reducescatter", tensors[0], name, how.process_set,
                                                   how.ignore_name_scope)))


@tf.RegisterGradient("AnelloReducescatter")
def _reducescatter_gradient(op: tf.Operation, *gradients: Any) -> List[Any]:
    return [*_gathered(_complete(op.outputs, gradients), _reduction(op)), None]


def _gathered(gradients: Tensors, how: Reduction) -> List[tf.Tensor]:
    factor = how.prescale * how.postscale * (how.process_set.size() if how.op == Sum else 1)
    return allgather([each * tf.cast(factor, each.dtype) for each in gradients], how.process_set,
                     ignore_name_scope=how.ignore_name_scope)


def allgather(tensors: Tensors, process_set: ProcessSet, name: Optional[str] = None,
              ignore_name_scope: bool = False) -> List[tf.Tensor]:
    """For each tensor those of all ranks, one after another.

    The gradient of a tensor is the average over the ranks of its part of the gradients.
    """
    if not tf.executing_eagerly():
        return list(ops.anello_allgather(tensors=tensors, **options("allgather", tensors[0], name, process_set,
                                                                    ignore_name_scope)).gathered)
    wait, rows_of_ranks = eager.allgather(tensors, process_set, name)
    gathered, rows, rank = wait(), rows_of_ranks(), process_set.rank()
    return _recorded(gathered, tensors, lambda *gradients: _averages_of_parts(
        gradients, [(sum(each[:rank]), each[rank]) for each in rows], Reduction(Average, process_set)))


@tf.RegisterGradient("AnelloAllgather")
def _allgather_gradient(op: tf.Operation, *gradients: Any) -> List[Any]:
    process_set = set_with_id(op.get_attr("process_set"))
    *gathered, rows = op.outputs
    rank = ops.anello_rank(process_set=process_set.process_set_id)
    parts = [(tf.reduce_sum(rows[k, :rank]), rows[k, rank]) for k in range(len(gathered))]
    how = Reduction(Average, process_set, ignore_name_scope=op.get_attr("ignore_name_scope"))
    return [*_averages_of_parts(_complete(gathered, gradients[:-1]), parts, how), None]


def _averages_of_parts(gradients: Tensors, parts: Sequence[Tuple[Any, Any]], how: Reduction) -> List[tf.Tensor]:
    return [each[begin:begin + rows] for each, (begin, rows) in zip(allreduce(gradients, how), parts)]


def broadcast(tensors: Tensors, root_rank: int, process_set: ProcessSet, name: Optional[str] = None,
              ignore_name_scope: bool = False) -> List[tf.Tensor]:
    """The root's tensors. Their gradients are the averages over the ranks on the root, and zero on the others."""
    if not tf.executing_eagerly():
        return list(ops.anello_broadcast(tensors=tensors, root=root_rank, **options(
            "broadcast", tensors[0], name, process_set, ignore_name_scope)))
    how = Reduction(Average, process_set)
    return _recorded(eager.broadcast(tensors, root_rank, process_set, name)(), tensors,
                     lambda *gradients: _only_on_root(gradients, basics.rank() == root_rank, how))


@tf.RegisterGradient("AnelloBroadcast")
def _broadcast_gradient(op: tf.Operation, *gradients: Any) -> List[Any]:
    how = Reduction(Average, set_with_id(op.get_attr("process_set")),
                    ignore_name_scope=op.get_attr("ignore_name_scope"))
    # All ranks must have one graph: where the result is always zero, TensorFlow would leave the reduction out.
    is_root = tf.equal(ops.anello_rank(), op.get_attr("root"))
    return [*_only_on_root(_complete(op.outputs, gradients), is_root, how), None]


def _only_on_root(gradients: Tensors, is_root: Any, how: Reduction) -> List[tf.Tensor]:
    return [tf.where(is_root, each, tf.zeros_like(each)) for each in allreduce(gradients, how)]


def alltoall(tensor: tf.Tensor, splits: tf.Tensor, process_set: ProcessSet, name: Optional[str] = None,
             ignore_name_scope: bool = False) -> List[tf.Tensor]:
    """The rows that came, and how many from each rank. Gradients go back where the rows came from.

    Args:
        splits: int32, the rows that each rank gets; without elements: equal parts.
    """
    if not tf.executing_eagerly():
        return list(ops.anello_alltoall(tensor=tensor, splits=splits, **options(
            "alltoall", tensor, name, process_set, ignore_name_scope)))
    output, received = eager.alltoall(tensor, splits, process_set, name)()
    return [*_recorded([output], [tensor], lambda gradient: alltoall(gradient, received, process_set)[:1]), received]


@tf.RegisterGradient("AnelloAlltoall")
def _alltoall_gradient(op: tf.Operation, gradient: Any, _: Any) -> List[Any]:
    back, _ = alltoall(_complete(op.outputs[:1], [gradient])[0], op.outputs[1], set_with_id(op.get_attr("process_set")),
                       ignore_name_scope=op.get_attr("ignore_name_scope"))
    return [back, None, None]


def _recorded(made: List[tf.Tensor], given: Tensors, gradient: Callable[..., List[tf.Tensor]]) -> List[tf.Tensor]:
    """The results. The tapes that there are can compute their gradients."""
    if record.could_possibly_record():
        record.record_operation("Anello", made, list(given), lambda *its: gradient(*_complete(made, its)))
    return made


def _complete(made: Tensors, gradients: Sequence[Any]) -> List[tf.Tensor]:
    """The gradients of results, all of them and of their types: TensorFlow leaves out those of results not used."""
    return [tf.zeros_like(its) if each is None else tf.cast(tf.convert_to_tensor(each), its.dtype)
            for its, each in zip(made, gradients)]


def _attributes(how: Reduction) -> Dict[str, Any]:
    """Factors are texts, because an attribute that is a number has 32 bits."""
    return {"reduce_op": int(how.op), "prescale": repr(float(how.prescale)), "postscale": repr(float(how.postscale))}


def _reduction(op: tf.Operation) -> Reduction:
    """The reduction that a node was made with. An operation that has no wire sends elements as they are."""
    wire = op.get_attr("wire").decode() if op.type == "AnelloAllreduce" else ""
    return Reduction(ReduceOp(op.get_attr("reduce_op")), set_with_id(op.get_attr("process_set")),
                     float(op.get_attr("prescale")), float(op.get_attr("postscale")), wire,
                     op.get_attr("ignore_name_scope"))
