"""Horovod's elastic interface, with models of Keras."""
from __future__ import annotations

from typing import Any, Mapping, Optional

import tensorflow as tf

from ..elastic import State, TensorFlowKerasState, run, source_rank

__all__ = ["CommitStateCallback", "KerasState", "UpdateBatchStateCallback", "UpdateEpochStateCallback", "run",
           "source_rank"]

Logs = Optional[Mapping[str, Any]]


class KerasState(TensorFlowKerasState):
    """A model, its optimizer (by default that of compile()), and plain values as keyword arguments."""

    def __init__(self, model: Any, optimizer: Any = None, **values: Any) -> None:
        super().__init__(model, optimizer, **values)


class CommitStateCallback(tf.keras.callbacks.Callback):
    """Commits a state after every `batches_per_commit` batches, and after each epoch."""

    def __init__(self, state: State, batches_per_commit: int = 1) -> None:
        super().__init__()
        self.state = state
        self.batches_per_commit = self.batches_remaining = batches_per_commit

    def on_train_begin(self, logs: Logs = None) -> None:
        self.batches_remaining = self.batches_per_commit

    def on_train_batch_end(self, batch: int, logs: Logs = None) -> None:
        self.batches_remaining -= 1
        if self.batches_remaining == 0:
            self.commit()
            self.batches_remaining = self.batches_per_commit

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        self.commit()

    def commit(self) -> None:
        """Commits the state. A derived class may do more."""
        self.state.commit()


class UpdateBatchStateCallback(tf.keras.callbacks.Callback):
    """Keeps the number of the batch in state.batch; it is 0 between epochs.

    A script that continues in the middle of an epoch gives fit() the remaining steps: steps - state.batch.
    """

    def __init__(self, state: State) -> None:
        super().__init__()
        self.state = state

    def on_train_batch_end(self, batch: int, logs: Logs = None) -> None:
        self.state.batch = batch

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        self.state.batch = 0


class UpdateEpochStateCallback(tf.keras.callbacks.Callback):
    """Keeps the number of completed epochs in state.epoch, even if several calls of fit() each count from 0."""

    def __init__(self, state: State) -> None:
        super().__init__()
        self.state = state
        self.initial_epoch = state.epoch

    def on_train_begin(self, logs: Logs = None) -> None:
        self.initial_epoch = self.state.epoch

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        self.state.epoch = self.initial_epoch + epoch + 1
