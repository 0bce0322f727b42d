"""Makes `variables` of Keras 3's optimizers callable too: scripts for Horovod call optimizer.variables()."""
from __future__ import annotations

from typing import Any, Callable, List

import tensorflow as tf


class _Variables(List[Any]):
    """A list that returns itself when it is called."""

    def __call__(self) -> "_Variables":
        return self

    def __radd__(self, first: List[Any]) -> "_Variables":
        # LossScaleOptimizer appends its own variables to the variables of its inner optimizer.
        return _Variables([*first, *self])


def _callable(its_list: Callable[[Any], List[Any]]) -> Callable[[Any], _Variables]:
    return lambda optimizer: _Variables(its_list(optimizer))


def make_callable() -> None:
    """Keras 2 had a method `variables`, Keras 3 has a list of this name. After this call both optimizer.variables() and
    .variables work."""
    for kind in tf.keras.optimizers.Optimizer.__mro__:
        its = kind.__dict__.get("variables")
        if isinstance(its, property):
            its_list = its.fget
            assert its_list is not None
            kind.variables = property(_callable(its_list), doc=its.__doc__)
            return
