"""Adds up the gradients of several backward passes before they are sent, in variables of a graph."""
from __future__ import annotations

from typing import Any, Callable, List, Sequence

import tensorflow as tf

from .gradients import Gradient, Gradients


class Aggregation:
    """Adds up the gradients of each pass, and sends the sums in the last pass of each step.

    Its variables are local variables of the graph (tf.compat.v1.local_variables_initializer).
    """

    def __init__(self, gradients: Gradients, passes: int, averages: bool, name: str) -> None:
        """
        Args:
            passes: the number of backward passes of a step.
            averages: whether the sums are divided by `passes`.
        """
        self._gradients = gradients
        self._passes = passes
        self._averages = averages
        self._name = name
        self.counter: Any = None
        self._is_last: Any = None

    def combine(self, gradients: Sequence[Gradient], variables: Sequence[Any]) -> List[Any]:
        """Returns the combined gradients in the last pass of a step. In other passes, returns values that apply() does
        not use."""
        there = [k for k, each in enumerate(gradients) if each is not None]
        made = list(gradients)
        with tf.compat.v1.variable_scope(None, f"aggregation_of_{self._name}"):
            self.counter = _local("counter", tf.zeros((), tf.int32))
            before = self.counter.read_value()
            sums = [_add(f"sum_{k}", _dense(gradients[k]), before) for k in there]
        self._is_last = tf.equal(before + 1, self._passes)
        with tf.control_dependencies([before, *sums]):
            count = self.counter.assign((before + 1) % self._passes)
        with tf.control_dependencies([count]):
            combined = tf.cond(self._is_last, lambda: self._combined(sums, [variables[k] for k in there]),
                               lambda: list(map(tf.identity, sums)))
        for k, each in zip(there, combined):
            made[k] = each
        return made

    def _combined(self, sums: List[tf.Tensor], variables: List[Any]) -> List[tf.Tensor]:
        divisor = self._passes if self._averages else 1
        return [each / tf.cast(divisor, each.dtype) for each in self._gradients.combine(sums, variables)]

    def apply(self, step: Callable[[], Any], gradients: Sequence[Gradient], global_step: Any) -> tf.Operation:
        """Makes the step in the last pass. In other passes only the global step is increased."""
        with tf.control_dependencies([each for each in gradients if each is not None]):
            return tf.cond(self._is_last, lambda: _after(step()), lambda: _after(_count(global_step)))


def _local(name: str, initial: tf.Tensor) -> Any:
    return tf.compat.v1.get_variable(name, initializer=initial, trainable=False, use_resource=True,
                                     collections=[tf.compat.v1.GraphKeys.LOCAL_VARIABLES])


def _dense(gradient: Any) -> tf.Tensor:
    return tf.convert_to_tensor(gradient)


def _add(name: str, gradient: tf.Tensor, before: tf.Tensor) -> tf.Tensor:
    """The sum of the passes so far; the first pass of a step starts a new sum."""
    its = _local(name, tf.zeros(gradient.shape, gradient.dtype))
    return its.assign(tf.where(tf.equal(before, 0), gradient, its.read_value() + gradient))


def _count(global_step: Any) -> Any:
    return tf.no_op() if global_step is None else global_step.assign_add(tf.ones((), global_step.dtype))


def _after(work: Any) -> tf.Tensor:
    """A result for both branches of tf.cond, available when `work` is done."""
    with tf.control_dependencies([work] if work is not None else []):
        return tf.constant(True)
