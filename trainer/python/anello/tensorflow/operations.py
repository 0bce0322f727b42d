"""The operations on lists of tensors, with their gradients: one list is one operation.

They call the library's functions. In a graph these make nodes; outside of graphs they block.
"""
from __future__ import annotations

from typing import Any, Callable, List, Optional, Sequence, Tuple

import tensorflow as tf
from tensorflow import executing_eagerly

from ..arguments import counts_of_ranks
from ..horovod.process_sets import ProcessSet, set_with_number
from ..horovod.reductions import Average, ReduceOp, Sum
from . import eager, graph
from .library import ops
from .reduction import Reduction

Tensors = Sequence[tf.Tensor]


def allreduce(tensors: Tensors, how: Reduction, name: Optional[str] = None) -> List[tf.Tensor]:
    """The reduction of each tensor over the ranks. For a sum or average, the gradient is reduced in the same way.

    Raises NotImplementedError if the gradient of another reduction is requested.
    """
    return allreduces([tensors], how, [name])[0]


def allreduces(lists: Sequence[Tensors], how: Reduction, names: Sequence[Optional[str]]) -> List[List[tf.Tensor]]:
    """Several reductions, one for each list. In a graph they can run at the same time."""
    return [list(_reduce(ops.anello_allreduce, "allreduce", tensors, name, how, wire=how.wire or ""))
            for tensors, name in zip(lists, names)]


@tf.RegisterGradient("AnelloAllreduce")
def _allreduce_gradient(op: tf.Operation, *gradients: Any) -> List[Any]:
    return [*_reduced(_complete(op.outputs, gradients), _reduction(op)), None]


def _reduced(gradients: Tensors, how: Reduction) -> List[tf.Tensor]:
    if how.op not in (Average, Sum):
        raise NotImplementedError(f"allreduce with op=hvd.{how.op.name} has no gradient: use hvd.Average or hvd.Sum, or "
                                  "tf.stop_gradient() of its result")
    return allreduce(gradients, how)


def reducescatter(tensors: Tensors, how: Reduction, name: Optional[str] = None) -> List[tf.Tensor]:
    """This rank's rows of each reduction. Gradients are gathered; the gradients of a sum are multiplied by the number
    of ranks."""
    return list(_reduce(ops.anello_reducescatter, "reduce_scatter", tensors, name, how))


@tf.RegisterGradient("AnelloReducescatter")
def _reducescatter_gradient(op: tf.Operation, *gradients: Any) -> List[Any]:
    return [*_gathered(_complete(op.outputs, gradients), _reduction(op)), None]


def _gathered(gradients: Tensors, how: Reduction) -> List[tf.Tensor]:
    factor = tf.cast(graph.size_of(how.process_set) if how.op == Sum else 1, tf.float64) * how.prescale * how.postscale
    return allgather([each * tf.cast(factor, each.dtype) for each in gradients], how.process_set,
                     ignore_name_scope=how.ignore_name_scope)


def allgather(tensors: Tensors, process_set: ProcessSet, name: Optional[str] = None,
              ignore_name_scope: bool = False) -> List[tf.Tensor]:
    """For each tensor of the list, the tensors of all ranks, concatenated.

    All ranks' gradients of the result are averaged; the gradient of a tensor is its part of that average.
    """
    return list(_call(ops.anello_allgather, "allgather", tensors, name, process_set, ignore_name_scope,
                      tensors=tensors).gathered)


@tf.RegisterGradient("AnelloAllgather")
def _allgather_gradient(op: tf.Operation, *gradients: Any) -> List[Any]:
    process_set = set_with_number(op.get_attr("process_set"))
    *gathered, rows = op.outputs
    rank = ops.anello_rank(process_set=process_set.number)
    parts = [(tf.reduce_sum(rows[k, :rank]), rows[k, rank]) for k in range(len(gathered))]
    how = Reduction(Average, process_set, ignore_name_scope=op.get_attr("ignore_name_scope"))
    return [*_averages_of_parts(_complete(gathered, gradients[:-1]), parts, how), None]


def _averages_of_parts(gradients: Tensors, parts: Sequence[Tuple[Any, Any]], how: Reduction) -> List[tf.Tensor]:
    return [each[begin:begin + rows] for each, (begin, rows) in zip(allreduce(gradients, how), parts)]


def broadcast(tensors: Tensors, root_rank: int, process_set: ProcessSet, name: Optional[str] = None,
              ignore_name_scope: bool = False) -> List[tf.Tensor]:
    """The root's tensors. On the root, the gradients are averages over the ranks; on other ranks they are zero."""
    return list(_call(ops.anello_broadcast, "broadcast", tensors, name, process_set, ignore_name_scope,
                      lambda: eager.require_root(root_rank, process_set), tensors=tensors, root=root_rank))


@tf.RegisterGradient("AnelloBroadcast")
def _broadcast_gradient(op: tf.Operation, *gradients: Any) -> List[Any]:
    how = Reduction(Average, set_with_number(op.get_attr("process_set")),
                    ignore_name_scope=op.get_attr("ignore_name_scope"))
    # The graph must be the same on all ranks, so each rank asks at run time whether it is the root: with a constant
    # zero, TensorFlow would remove the reduction.
    is_root = tf.equal(ops.anello_rank(), op.get_attr("root"))
    return [*_only_on_root(_complete(op.outputs, gradients), is_root, how), None]


def _only_on_root(gradients: Tensors, is_root: Any, how: Reduction) -> List[tf.Tensor]:
    return [tf.where(is_root, each, tf.zeros_like(each)) for each in allreduce(gradients, how)]


def alltoall(tensor: tf.Tensor, splits: tf.Tensor, process_set: ProcessSet, name: Optional[str] = None,
             ignore_name_scope: bool = False) -> List[tf.Tensor]:
    """The received rows, and the number of rows from each rank. The gradient of a row goes back to the row's rank.

    Args:
        splits: the number of rows for each rank, as int32; if it is empty, the parts are equal.
    """
    return list(_call(ops.anello_alltoall, "alltoall", [tensor], name, process_set, ignore_name_scope,
                      lambda: counts_of_ranks("splits", splits.numpy().tolist() or None, process_set.size()),
                      tensor=tensor, splits=splits))


@tf.RegisterGradient("AnelloAlltoall")
def _alltoall_gradient(op: tf.Operation, gradient: Any, _: Any) -> List[Any]:
    back, _ = alltoall(_complete(op.outputs[:1], [gradient])[0], op.outputs[1], set_with_number(op.get_attr("process_set")),
                       ignore_name_scope=op.get_attr("ignore_name_scope"))
    return [back, None, None]


def _reduce(op: Callable[..., Any], verb: str, tensors: Tensors, name: Optional[str], how: Reduction,
            **arguments: Any) -> Any:
    """Calls a function of the library for a reduction, or adds nodes for it to the graph. In a graph, factors become
    texts, because a number as an attribute has only 32 bits."""
    if executing_eagerly():
        return eager.run(op, verb, tensors, name, how.process_set, how.prescale, how.postscale, tensors=tensors,
                         reduce_op=int(how.op), **arguments)
    made = op(tensors=tensors, reduce_op=int(how.op), prescale=repr(float(how.prescale)),
              postscale=repr(float(how.postscale)), **arguments,
              **graph.options(verb, tensors[0], name, how.process_set, how.ignore_name_scope))
    return made if len(made) == 1 else _passed_on(made)


def _passed_on(results: Tensors) -> Tensors:
    """Adds one node that reads all results of a list.

    The operation ends on a thread of the library. That thread would wake a thread of TensorFlow's for each reader of a
    result, and lose its core to it: a step with 122 small gradients takes 2.7 ms without this node, and 1.3 with it.
    The results are in host memory on every device. The node's name contains the operation's, because operations without
    a name are named after their tensors, equally on all ranks.
    """
    with tf.device("CPU"):
        return tf.identity_n(results, name=results[0].op.name.rsplit("/", 1)[-1] + "_results")


def _call(op: Callable[..., Any], verb: str, sent: Tensors, name: Optional[str], process_set: ProcessSet,
          ignore_name_scope: bool, require: Callable[[], Any] = lambda: None, **arguments: Any) -> Any:
    """Calls a function of the library, or adds a node for it to the graph.

    Args:
        require: outside of graphs, checks the arguments other than the tensors, and raises if one is wrong.
    """
    if executing_eagerly():
        return eager.run(op, verb, sent, name, process_set, require=require, **arguments)
    return op(**arguments, **graph.options(verb, sent[0], name, process_set, ignore_name_scope))


def _complete(made: Tensors, gradients: Sequence[Any]) -> List[tf.Tensor]:
    """Replaces missing gradients by zeros (TensorFlow passes None for unused results), and casts all others."""
    return [tf.zeros_like(its) if each is None else tf.cast(tf.convert_to_tensor(each), its.dtype)
            for its, each in zip(made, gradients)]


def _reduction(op: tf.Operation) -> Reduction:
    """The reduction for which a node was made. An operation without an attribute `wire` sends elements unchanged."""
    wire = tf.compat.as_str(op.get_attr("wire")) if op.type == "AnelloAllreduce" else ""
    factors = (eager.factors_in(op.inputs[-1]) if op.get_attr("waits")
               else (float(op.get_attr("prescale")), float(op.get_attr("postscale"))))
    return Reduction(ReduceOp(op.get_attr("reduce_op")), set_with_number(op.get_attr("process_set")),
                     *factors, wire, op.get_attr("ignore_name_scope"))
