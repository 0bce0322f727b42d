"""The arguments that all operations in a graph need."""
from __future__ import annotations

import itertools
import re
from typing import Any, Dict, Optional, Union

import tensorflow as tf
from tensorflow.python.ops import control_flow_util

from ..horovod import basics
from ..horovod.process_sets import ProcessSet
from .library import number, ops

_numbers = itertools.count()


def options(verb: str, tensor: tf.Tensor, name: Optional[str], process_set: ProcessSet,
            ignore_name_scope: bool = False) -> Dict[str, Any]:
    """The arguments of every operation. The node's name must be the same on all ranks: it identifies the operation.

    Raises NotImplementedError in a function that XLA compiles, and ValueError if the process set is not registered.
    """
    graph = tf.compat.v1.get_default_graph()
    if control_flow_util.GraphOrParentsInXlaContext(graph):
        raise NotImplementedError(f"XLA cannot compile {verb}, which waits for other ranks: give tf.function() or "
                                  "model.compile() jit_compile=False")
    of_tensor = getattr(tensor, "name", "captured")  # captured eager tensors have no name
    return {"name": _node_name(name or f"{verb}_{of_tensor}"), "process_set": number(process_set),
            "ignore_name_scope": ignore_name_scope, "distinct": str(next(_numbers)), "now": _now(graph)}


def may_have_others(process_set: ProcessSet) -> bool:
    """True if the set has other ranks. Also True in an elastic job for a graph, because the graph may run when the set
    has other ranks.

    Raises ValueError if a graph is made before the set has its ranks.
    """
    lives_on = not tf.executing_eagerly() and basics.elastic_worlds() is not None
    if lives_on and not process_set.ranks:
        raise ValueError(f"{process_set} has no ranks yet, so a graph that is made now would never use it: make the "
                         "tf.function in a world in which the set has ranks")
    return process_set.included() and (process_set.size() > 1 or lives_on)


def size_of(process_set: ProcessSet) -> Union[int, tf.Tensor]:
    """The number of ranks of the set. In a graph, it is the number at the time when the graph runs."""
    return process_set.size() if tf.executing_eagerly() else ops.anello_size(process_set=number(process_set))


def _node_name(name: str) -> str:
    return re.sub("[^A-Za-z0-9_]", "_", name).lstrip("_") or "unnamed"


def _now(graph: Any) -> tf.Tensor:
    """An input whose value is only available when the graph runs.

    While a graph is prepared, TensorFlow runs operations with constant inputs, in an order that differs between ranks.
    An operation that waits for other ranks would wait forever.
    """
    if not hasattr(graph, "_anello_now"):
        with tf.control_dependencies(None):
            graph._anello_now = ops.anello_rank()  # stored in the graph to which it belongs
    return graph._anello_now
