"""Sends variables of one rank to every rank. The variables may be those of TensorFlow or of Keras 3."""
from __future__ import annotations

from typing import Any, Iterable, List, Optional, Sequence

import tensorflow as tf

from ..horovod.process_sets import ProcessSet, global_process_set
from ..horovod.settings import bucket_bytes
from . import operations
from .buckets import plan
from .eager import preparing


def of_tensorflow(variable: Any) -> Any:
    """TensorFlow's variable inside a variable of Keras 3; any other object unchanged."""
    inner = getattr(variable, "value", None)
    return inner if isinstance(inner, tf.Variable) else variable


def key(variable: Any) -> Any:
    """A key for a variable in a set or dict, since variables of TensorFlow cannot be compared."""
    return of_tensorflow(variable).ref()


def of_optimizer(optimizer: Any) -> List[Any]:
    """The variables of an optimizer of Keras, and its learning rate, which the list of tf-keras does not contain."""
    variables = optimizer.variables
    found = list(variables() if callable(variables) else variables)
    rate = getattr(optimizer, "_learning_rate", None)
    is_missing = isinstance(of_tensorflow(rate), tf.Variable) and key(rate) not in {key(each) for each in found}
    return [*found, rate] if is_missing else found


def require_built(model: Any) -> None:
    """ValueError if a model of Keras has no variables yet."""
    if not getattr(model, "built", True):
        raise ValueError("the model has no variables yet: call model.build(input_shape) first")


@tf.autograph.experimental.do_not_convert
def broadcast_(variables: Sequence[Any], root_rank: int, name: Optional[str] = None,
               process_set: ProcessSet = global_process_set) -> List[tf.Tensor]:
    """Sets variables to the root's values, and returns these values. The list is one operation.

    Args:
        root_rank: a rank of the world.
    """
    with preparing("broadcast", name, process_set):
        targets = [of_tensorflow(each) for each in variables]
        values = [tf.convert_to_tensor(each) for each in targets]
    received = operations.broadcast(values, root_rank, process_set, name)
    updates = [variable.assign(value) for variable, value in zip(targets, received)]
    if tf.executing_eagerly():
        return received
    with tf.control_dependencies(updates):
        return [tf.identity(each) for each in targets]


@tf.autograph.experimental.do_not_convert
def broadcast_variables(variables: Sequence[Any], root_rank: int, process_set: ProcessSet = global_process_set,
                        inplace: bool = False) -> Optional[tf.Operation]:
    """Sets variables to the root's values: model.variables, optimizer.variables. In a graph returns the operation.

    Args:
        variables: the variables, in the same order on all ranks.
        inplace: accepted and not needed.
    """
    with preparing("broadcast", None, process_set):
        every = _checked(variables)
    lists = [[every[k] for k in each] for each in plan([of_tensorflow(each) for each in every], bucket_bytes())]
    updated = [broadcast_(each, root_rank, process_set=process_set) for each in lists]
    return None if tf.executing_eagerly() else tf.group(*[tensor for each in updated for tensor in each])


def _checked(variables: Any) -> List[Any]:
    every = list(variables) if isinstance(variables, Iterable) else [variables]
    for each in every:
        if not isinstance(of_tensorflow(each), tf.Variable):
            raise TypeError(f"variables must be a list of variables, like model.variables; a {type(each).__name__} is "
                            "not one: hvd.broadcast() takes tensors, hvd.broadcast_object() other objects")
    return every


def broadcast_global_variables(root_rank: int) -> tf.Operation:
    """The operation that sets all global variables to the root's values. RuntimeError outside of graphs."""
    if tf.executing_eagerly():
        raise RuntimeError("hvd.broadcast_global_variables() is for graphs: use hvd.broadcast_variables("
                           "model.variables, root_rank)")
    return broadcast_variables(tf.compat.v1.global_variables(), root_rank)


class BroadcastGlobalVariablesHook(tf.compat.v1.train.SessionRunHook):
    """For MonitoredTrainingSession: sets all global variables to the root's values when a session has been made."""

    def __init__(self, root_rank: int, device: str = "") -> None:
        super().__init__()
        self.root_rank = root_rank
        self.bcast_op: Any = None

    def begin(self) -> None:
        """Adds the operation to the graph."""
        if self.bcast_op is None or self.bcast_op.graph is not tf.compat.v1.get_default_graph():
            self.bcast_op = broadcast_global_variables(self.root_rank)

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Runs the operation."""
        session.run(self.bcast_op)
