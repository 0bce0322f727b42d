"""Callbacks for loops like those of Keras, which call on_train_begin, on_batch_begin and on_epoch_end.

The callbacks need no framework: the loop passes to them the values that they may change. `Callbacks` calls a list of
callbacks in order. (The callbacks have not been tried with TensorFlow itself.)
"""
from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Sequence

from .group import Group
from .training import average_metrics


class Callback:
    """Does nothing at each point of a training."""

    def on_train_begin(self) -> None:
        """Before the first epoch."""

    def on_batch_begin(self, batch: int) -> None:
        """Called before each step. `batch` is the number of the step in its epoch, from 0."""

    def on_epoch_begin(self, epoch: int) -> None:
        """Before each epoch."""

    def on_epoch_end(self, epoch: int, logs: Optional[Dict[str, float]] = None) -> None:
        """Called after each epoch. `logs` are the epoch's metrics, which a callback may change."""


class Callbacks(Callback):
    """Calls a list of callbacks, in order."""

    def __init__(self, callbacks: Sequence[Callback]) -> None:
        self._callbacks: List[Callback] = list(callbacks)

    def on_train_begin(self) -> None:
        for each in self._callbacks:
            each.on_train_begin()

    def on_batch_begin(self, batch: int) -> None:
        for each in self._callbacks:
            each.on_batch_begin(batch)

    def on_epoch_begin(self, epoch: int) -> None:
        for each in self._callbacks:
            each.on_epoch_begin(epoch)

    def on_epoch_end(self, epoch: int, logs: Optional[Dict[str, float]] = None) -> None:
        for each in self._callbacks:
            each.on_epoch_end(epoch, logs)


class BroadcastCallback(Callback):
    """Gives all ranks the root's tensors when the training begins."""

    def __init__(self, group: Group, tensors: Callable[[], Sequence[Any]], root: int = 0) -> None:
        self._group, self._tensors, self._root = group, tensors, root

    def on_train_begin(self) -> None:
        for tensor in self._tensors():
            self._group.broadcast(tensor, self._root)


class MetricAverageCallback(Callback):
    """Replaces the metrics of an epoch by their averages over the ranks."""

    def __init__(self, group: Group) -> None:
        self._group = group

    def on_epoch_end(self, epoch: int, logs: Optional[Dict[str, float]] = None) -> None:
        if logs:
            logs.update(average_metrics(self._group, logs))


class LearningRateWarmupCallback(Callback):
    """Raises the learning rate from that of one rank to `rate` within the first epochs, step by step.

    Args:
        set_rate: called with the rate of the next step.
        rate: the final rate, usually the rate of one rank times the number of ranks.
    """

    def __init__(self, group: Group, set_rate: Callable[[float], None], rate: float, steps_per_epoch: int,
                 epochs: int = 5) -> None:
        self._set_rate, self._rate, self._first = set_rate, rate, rate / group.size
        self._steps_per_epoch, self._steps = steps_per_epoch, steps_per_epoch * epochs
        self._epoch = 0

    def on_epoch_begin(self, epoch: int) -> None:
        self._epoch = epoch

    def on_batch_begin(self, batch: int) -> None:
        step = self._epoch * self._steps_per_epoch + batch
        if step <= self._steps:
            part = step / self._steps if self._steps else 1.0
            self._set_rate(self._first + (self._rate - self._first) * part)
