"""Optimizers of Keras 3: apply() uses the gradients of all ranks."""
from __future__ import annotations

import functools
import inspect
from typing import Any, Callable, Optional, Sequence

import tensorflow as tf

from ...horovod.user_warning import warn
from .aggregation import Aggregation
from .ranks import ForAllRanks

XLA_IS_OFF = "XLA cannot compile a step that waits for other ranks: model.compile() takes jit_compile=False"


class Distributed(ForAllRanks):
    """The base class that DistributedOptimizer inserts before the optimizer's own class."""

    # Attributes of the optimizer's own class.
    built: bool
    name: str
    build: Callable[[Sequence[Any]], None]
    _trainable_variables: Sequence[Any]

    def apply(self, grads: Sequence[Any], trainable_variables: Optional[Sequence[Any]] = None) -> None:
        """Does the same as the optimizer's method, with the gradients of all ranks. If a step has several passes, acts
        in the last pass.

        Model.fit() and apply_gradients() call this method. It blocks outside of functions. A DistributedGradientTape
        has combined its gradients already, and this method would combine them again: use only one of the two.
        """
        mine: Any = super()
        gradients = list(grads)
        variables = list(self._trainable_variables if trainable_variables is None else trainable_variables)
        aggregation = self._ranks.aggregation
        if not gradients or aggregation is None:
            mine.apply(self._ranks.combine(gradients, variables), variables)
            return
        self.make_variables(variables)
        aggregation.add(gradients, variables)
        step = functools.partial(self._apply_sums, aggregation, variables)
        tf.cond(aggregation.is_complete(), step, self._count)

    def make_variables(self, variables: Sequence[Any]) -> None:
        """Makes the optimizer's variables for these variables, unless they exist. Do not call it in a branch of
        tf.cond."""
        if not self.built:
            with tf.keras.name_scope(self.name, caller=self):
                self.build(variables)

    def _apply_sums(self, aggregation: Aggregation, variables: Sequence[Any]) -> tf.Tensor:
        mine: Any = super()
        sums = aggregation.take(variables)
        mine.apply(self._ranks.combine(sums, variables), variables)
        return tf.constant(True)

    def _count(self) -> tf.Tensor:
        """Counts a pass; called for passes that are not the last of a step."""
        self.iterations.assign_add(1)
        return tf.constant(False)


def adapt_keras() -> None:
    """Changes two methods of Keras so that they support distributed optimizers.

    Runs on import: the expression model.compile(hvd.DistributedOptimizer(...)) looks up compile() before it makes the
    optimizer.
    """
    scaling = tf.keras.optimizers.LossScaleOptimizer
    scaling.check_finite = _agreeing(scaling.check_finite)
    # The class that defines compile() is changed. In a subclass, Keras would take this method for the program's own,
    # and would not call it when it loads a file.
    trainer: Any = next(kind for kind in tf.keras.Model.__mro__ if "compile" in kind.__dict__)
    trainer.compile = _without_xla(trainer.compile)


def _agreeing(check_finite: Any) -> Any:
    """Makes all ranks skip the step if one rank has an infinite gradient: they would wait for that rank's gradients."""

    @functools.wraps(check_finite)
    def check(optimizer: Any, grads: Sequence[Any]) -> Any:
        finite, inner = check_finite(optimizer, grads), optimizer.inner_optimizer
        return inner._ranks.all_finite(finite) if isinstance(inner, Distributed) else finite

    return check


def _is_of_all_ranks(optimizer: Any) -> bool:
    return isinstance(optimizer, Distributed) or isinstance(getattr(optimizer, "inner_optimizer", None), Distributed)


def _without_xla(compile_model: Any) -> Any:
    """Turns XLA off, because it cannot compile operations that wait for other ranks. Keras uses XLA if there is a
    GPU."""
    signature = inspect.signature(compile_model)

    @functools.wraps(compile_model)
    def compile_without(*arguments: Any, **options: Any) -> None:
        given = signature.bind(*arguments, **options)
        given.apply_defaults()
        its = given.arguments
        if _is_of_all_ranks(its["optimizer"]) and its["jit_compile"] == "auto" and not its["run_eagerly"]:
            its["jit_compile"] = False
            if any(each.device_type != "CPU" for each in tf.config.list_physical_devices()):
                warn(XLA_IS_OFF)
        compile_model(*given.args, **given.kwargs)

    return compile_without
