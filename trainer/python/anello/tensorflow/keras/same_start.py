"""Checks in Model.fit() whether the script has forgotten to broadcast the model, so that ranks train different
models."""
from __future__ import annotations

import functools
import inspect
from typing import Any, Dict, List, Optional

import tensorflow as tf

from ...horovod.user_warning import warn
from ..same_start import first_difference

_STEPS = 2  # BroadcastGlobalVariablesCallback may broadcast after the first step


class SameStart(tf.keras.callbacks.Callback):
    """Compares the variables of a distributed optimizer once, after its first steps. Rank 0 warns if they differ.

    It is the last callback of Model.fit(), so that it runs after callbacks that broadcast.
    """

    async_safe = True  # Keras 3 need not wait for the logs of a batch
    _calls = 0

    def __init__(self, ranks: Any) -> None:
        super().__init__()
        self._ranks = ranks
        self._supports_tf_logs = True  # as async_safe, for tf-keras

    def on_train_batch_end(self, batch: int, logs: Optional[Dict[str, Any]] = None) -> None:
        self._calls += 1
        if self._calls == _STEPS:
            self._compare()

    def on_train_end(self, logs: Optional[Dict[str, Any]] = None) -> None:
        if self._calls < _STEPS:
            self._compare()

    def _compare(self) -> None:
        variables = self._ranks.not_compared()
        different = first_difference(variables, self._ranks.process_set) if variables else None
        if different is not None and self._ranks.process_set.rank() == 0:
            name = getattr(variables[different], "path", variables[different].name)
            warn(f"the ranks train different variables; the first that differs is '{name}': give model.fit() "
                 "hvd.callbacks.BroadcastGlobalVariablesCallback(0), or call hvd.broadcast_variables(model.variables, "
                 "root_rank=0) before it")


@functools.lru_cache(maxsize=None)
def compare_in_fit() -> None:
    """Makes Model.fit() compare the variables if its optimizer is a distributed one."""
    trainer: Any = next(kind for kind in tf.keras.Model.__mro__ if "fit" in kind.__dict__)
    trainer.fit = _comparing(trainer.fit)


def _comparing(fit: Any) -> Any:
    signature = inspect.signature(fit)

    @functools.wraps(fit)
    def fit_and_compare(model: Any, *arguments: Any, **options: Any) -> Any:
        optimizer = getattr(model, "optimizer", None)
        ranks: Any = getattr(getattr(optimizer, "inner_optimizer", optimizer), "_ranks", None)
        if ranks is None or not tf.executing_eagerly():
            return fit(model, *arguments, **options)
        is_new_world = ranks.process_set.included() and ranks.follow_world()
        if is_new_world or getattr(model, "_fitted_for", None) is not ranks:
            # Not a plain assignment, because Keras would track the attribute.
            object.__setattr__(model, "_fitted_for", ranks)
            # The old function would use only this rank's gradients, or the gradients of the ranks of an earlier world.
            model.train_function = None
        given = signature.bind(model, *arguments, **options)
        given.arguments["callbacks"] = _followed(given.arguments.get("callbacks"), SameStart(ranks), model)
        ranks.is_fitting = True
        try:
            return fit(*given.args, **given.kwargs)
        finally:
            ranks.is_fitting = False

    return fit_and_compare


def _followed(callbacks: Any, last: Any, model: Any) -> Any:
    if isinstance(callbacks, tf.keras.callbacks.CallbackList):
        last.set_model(model)
        callbacks.append(last)
        return callbacks
    every: List[Any] = [] if callbacks is None else tf.nest.flatten(callbacks)
    return [*every, last]
