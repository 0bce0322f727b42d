"""Optimizers of Keras 2 (tf-keras): minimize(), which Model.fit() calls, uses the gradients of all ranks."""
from __future__ import annotations

import functools
from typing import Any, List, Sequence, Tuple

import tensorflow as tf

from .aggregation import Aggregation
from .ranks import ForAllRanks

Pairs = List[Tuple[Any, Any]]


class Distributed(ForAllRanks):
    """The base class that DistributedOptimizer inserts before the optimizer's own class."""

    def compute_gradients(self, loss: Any, var_list: Any, tape: Any = None) -> Pairs:
        """Does the same as the optimizer's method, with the gradients of all ranks. Blocks outside of functions."""
        return self._compute_gradients(loss, var_list, tape=tape)

    def _compute_gradients(self, loss: Any, var_list: Any, grad_loss: Any = None, tape: Any = None) -> Pairs:
        """compute_gradients() has this name in optimizers of tf.keras.optimizers.legacy. They accept `grad_loss`."""
        mine: Any = super()
        if hasattr(mine, "_compute_gradients"):
            pairs = mine._compute_gradients(loss, var_list, grad_loss, tape)
        else:
            pairs = mine.compute_gradients(loss, var_list, tf.GradientTape() if tape is None else tape)
        variables = [variable for _, variable in pairs]
        return list(zip(self._of_all_ranks([gradient for gradient, _ in pairs], variables), variables))

    def get_gradients(self, loss: Any, params: Sequence[Any]) -> List[Any]:
        """Does the same as the optimizer's method, with the gradients of all ranks."""
        mine: Any = super()
        return self._of_all_ranks(mine.get_gradients(loss, params), params)

    def _of_all_ranks(self, gradients: Sequence[Any], variables: Sequence[Any]) -> List[Any]:
        aggregation = self._ranks.aggregation
        if aggregation is None:
            return self._ranks.combine(gradients, variables)
        aggregation.add(gradients, variables)
        summed = aggregation.summed(variables)
        there = [variables[k] for k in summed]
        combined = tf.cond(aggregation.is_complete(), lambda: self._sums(aggregation, there),
                           lambda: aggregation.zeros(there))
        made: List[Any] = [None] * len(variables)
        for k, each in zip(summed, combined):
            made[k] = each
        return made

    def _sums(self, aggregation: Aggregation, variables: Sequence[Any]) -> List[tf.Tensor]:
        return self._ranks.combine(aggregation.take(variables), variables)

    def apply_gradients(self, grads_and_vars: Any, *arguments: Any, **options: Any) -> Any:
        """The optimizer's method. If a step has several passes, this method acts in the last pass, and only counts the
        other passes.

        This method does not combine gradients: in a custom loop use minimize(), or a DistributedGradientTape.
        """
        mine: Any = super()
        aggregation = self._ranks.aggregation
        pairs = list(grads_and_vars)
        if aggregation is None:
            return mine.apply_gradients(pairs, *arguments, **options)
        self.make_variables([variable for gradient, variable in pairs if gradient is not None])
        apply = functools.partial(mine.apply_gradients, pairs, *arguments, **options)
        tf.cond(tf.equal(aggregation.counter, 0), lambda: _done(apply), lambda: _done(self._count))
        return self.iterations

    def make_variables(self, variables: Sequence[Any]) -> None:
        """Makes the optimizer's variables for these variables, unless they exist. Do not call it in a branch of
        tf.cond."""
        mine: Any = self
        with tf.name_scope(mine.name if hasattr(mine, "build") else mine._name), tf.init_scope():
            mine.build(variables) if hasattr(mine, "build") else mine._create_all_weights(variables)

    def _count(self) -> None:
        self.iterations.assign_add(1)


def _done(call: Any) -> tf.Tensor:
    """Runs the call for a branch of tf.cond; both branches must return equal types."""
    call()
    return tf.constant(True)
