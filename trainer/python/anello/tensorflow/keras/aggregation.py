"""Adds up the gradients of several backward passes before they are sent, outside of graphs and in functions."""
from __future__ import annotations

from typing import Any, Callable, Dict, List, Sequence

import tensorflow as tf

from ..gradients import Gradient
from ..variables import key

Combine = Callable[[Sequence[Gradient], Sequence[Any]], List[Gradient]]


class Aggregation:
    """The sums of gradients since they were last sent.

    Attributes:
        counter: the number of passes that have been added up; zero when the sums have been taken.
    """

    def __init__(self, passes: int, averages: bool, sparse_as_dense: bool) -> None:
        """`averages`: the sums are divided by the number of passes."""
        self._passes = passes
        self._divisor = passes if averages else 1
        self._sparse_as_dense = sparse_as_dense
        self._sums: Dict[Any, tf.Variable] = {}
        with tf.init_scope():
            self.counter = tf.Variable(0, trainable=False, dtype=tf.int64, name="aggregation_counter")

    def add(self, gradients: Sequence[Gradient], variables: Sequence[Any]) -> None:
        """Counts a pass. ValueError if a gradient is a tf.IndexedSlices, unless sparse gradients are made dense."""
        for gradient, variable in zip(gradients, variables):
            if gradient is not None:
                self._add(gradient, variable)
        self.counter.assign_add(1)

    def _add(self, gradient: Gradient, variable: Any) -> None:
        if isinstance(gradient, tf.IndexedSlices) and not self._sparse_as_dense:
            raise ValueError("backward_passes_per_step adds gradients up, and one is a tf.IndexedSlices: give "
                             "sparse_as_dense=True")
        dense = tf.convert_to_tensor(gradient)
        if key(variable) not in self._sums:
            with tf.init_scope():
                zeros = tf.zeros(variable.shape, dense.dtype)
                self._sums[key(variable)] = tf.Variable(zeros, trainable=False, name="aggregated_gradient")
        self._sums[key(variable)].assign_add(dense)

    def is_complete(self) -> tf.Tensor:
        """True if the pass that was counted last is the last pass of a step."""
        return tf.equal(self.counter, self._passes)

    def summed(self, variables: Sequence[Any]) -> List[int]:
        """The numbers of the variables that had a gradient in any pass."""
        return [k for k, each in enumerate(variables) if key(each) in self._sums]

    def zeros(self, variables: Sequence[Any]) -> List[tf.Tensor]:
        """Zeros like the sums of these variables."""
        return [tf.zeros_like(self._sums[key(each)]) for each in variables]

    def take(self, variables: Sequence[Any]) -> List[Gradient]:
        """Returns the sums; None for a variable without a gradient. The next pass begins with zeros."""
        taken: List[Gradient] = []
        for variable in variables:
            its = self._sums.get(key(variable))
            taken.append(None if its is None else its.read_value() / tf.cast(self._divisor, its.dtype))
            if its is not None:
                its.assign(tf.zeros_like(its))
        self.counter.assign(0)
        return taken
