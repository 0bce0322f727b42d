"""Horovod's elastic interface for variables of TensorFlow and models of Keras."""
from __future__ import annotations

import functools
from typing import Any, Callable, List, Optional, Sequence

import tensorflow as tf

from ..horovod import elastic_run
from ..horovod.elastic import State
from ..horovod.source import source_rank
from .errors import raising_of_world
from .variables import broadcast_variables, of_optimizer, of_tensorflow, require_built

__all__ = ["ObjectState", "State", "TensorFlowKerasState", "TensorFlowState", "run", "source_rank"]

ObjectState = State


def run(train: Callable[..., Any]) -> Callable[..., Any]:
    """Decorates a function of a State: see anello.horovod.elastic_run.run().

    Raises HorovodInternalError if the world has ended, even if the error came from a graph.
    """
    return elastic_run.run(functools.wraps(train)(functools.partial(raising_of_world, train)))


class TensorFlowState(State):
    """Some variables, and plain values as keyword arguments.

    Args:
        variables: the variables. In a graph of TensorFlow 1 this argument may be omitted, which means all global
            variables.
        session: the session of a graph.
    """

    def __init__(self, variables: Optional[Sequence[Any]] = None, session: Any = None, **values: Any) -> None:
        self._given = variables
        self.session: Any = session or (None if tf.executing_eagerly() else tf.compat.v1.get_default_session())
        self._broadcast = None if tf.executing_eagerly() else broadcast_variables(self.variables, 0)
        super().__init__(**values)
        self.save()

    @property
    def variables(self) -> List[Any]:
        """The variables as they are now."""
        return list(tf.compat.v1.global_variables() if self._given is None else self._given)

    def save(self) -> None:
        """Keeps a copy of the present values."""
        variables = [of_tensorflow(each) for each in self.variables]
        self._kept = [each.numpy() for each in variables] if self._broadcast is None else self.session.run(variables)
        super().save()

    def restore(self) -> None:
        """Restores the values of the last copy."""
        for variable, value in zip(self.variables, self._kept):
            if self._broadcast is None:
                variable.assign(value)
            else:
                variable.load(value, self.session)
        super().restore()

    def sync(self) -> None:
        """Gives all ranks the newest values, and keeps a copy; see State.sync()."""
        raising_of_world(self._sync_variables)
        super().sync()

    def _sent_bytes(self) -> int:
        variables = [of_tensorflow(each) for each in self.variables]
        return super()._sent_bytes() + sum(each.dtype.size * (each.shape.num_elements() or 0) for each in variables)

    def _sync_variables(self) -> None:
        if self._broadcast is None:
            broadcast_variables(self.variables, source_rank())
        elif source_rank() != 0:
            raise ValueError(f"rank {source_rank()} has the newest state, but the graph of this TensorFlowState "
                             "broadcasts that of rank 0: use eager TensorFlow in elastic jobs")
        else:
            self.session.run(self._broadcast)


class TensorFlowKerasState(TensorFlowState):
    """A model of Keras, its optimizer, and plain values as keyword arguments.

    Args:
        optimizer: the optimizer. If it is omitted, the model's optimizer is used.
        backend: in a graph of TensorFlow 1, the object whose get_session() returns the session.
    """

    def __init__(self, model: Any, optimizer: Any = None, backend: Any = None, **values: Any) -> None:
        require_built(model)
        self.model = model
        self.optimizer = optimizer or model.optimizer
        _build(self.optimizer, model.trainable_variables)
        in_graph = backend is not None and not tf.executing_eagerly()
        super().__init__(session=backend.get_session() if in_graph else None, **values)

    @property
    def variables(self) -> List[Any]:
        """The present variables of the model (without seeds) and of the optimizer."""
        return [*self.model.weights, *(of_optimizer(self.optimizer) if self.optimizer is not None else [])]


def _build(optimizer: Any, variables: Sequence[Any]) -> None:
    """Makes the variables of an optimizer before its first step, so that save() and restore() include them."""
    if hasattr(optimizer, "build") and not getattr(optimizer, "built", False):
        optimizer.build(variables)
