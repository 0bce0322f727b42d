"""Callbacks for Model.fit()."""
from __future__ import annotations

import array
from typing import Any, Dict, Optional, Sequence, Union

import tensorflow as tf

from ...horovod import basics
from ...horovod.process_sets import global_process_set
from ...training import average_metrics
from ..variables import key, of_optimizer, of_tensorflow
from .schedules import LearningRateScheduleCallback, LearningRateWarmupCallback
from .variables import give_all_ranks

__all__ = ["BestModelCheckpoint", "BroadcastGlobalVariablesCallback", "LearningRateScheduleCallback",
           "LearningRateWarmupCallback", "MetricAverageCallback"]

Logs = Optional[Dict[str, Any]]


class BroadcastGlobalVariablesCallback(tf.keras.callbacks.Callback):
    """Gives all ranks the variables of the root's model and optimizer, once, except for seeds of random layers.

    If all ranks have built their models by the first batch, it broadcasts the model before this batch. It broadcasts
    all variables after the first batch. A step raises Mismatch on all ranks if their models differ.

    Args:
        device: accepted and not needed.
        local_variables: a variable, or a list of variables. Each rank keeps its own values of these.
    """

    def __init__(self, root_rank: int, device: str = "", local_variables: Union[None, Any, Sequence[Any]] = None) -> None:
        super().__init__()
        self.root_rank = root_rank
        self.broadcast_done = False
        self._local: Any = set()
        given = [] if local_variables is None else local_variables
        for variable in [given] if isinstance(of_tensorflow(given), tf.Variable) else given:
            if not isinstance(of_tensorflow(variable), tf.Variable):
                raise ValueError(f"local_variables must be variables, not {type(variable).__name__}")
            self.register_local_var(variable)

    def register_local_var(self, var: Any) -> None:
        """Each rank keeps its own value of this variable."""
        self._local.add(key(var))

    def on_train_begin(self, logs: Logs = None) -> None:
        if not self.broadcast_done and self._all_are_built():
            self._broadcast(self.model.weights)

    def _all_are_built(self) -> bool:
        built = array.array("q", [int(self.model.built)])
        # If a rank has forgotten the callback, the report of the waiting ranks shows this name.
        global_process_set.agenda.allreduce(
            [built], op="min", name="hvd.callbacks.BroadcastGlobalVariablesCallback", waits=True).wait()
        return bool(built[0])

    def on_train_batch_end(self, batch: int, logs: Logs = None) -> None:
        if not self.broadcast_done:
            self._broadcast([*self.model.weights, *of_optimizer(self.model.optimizer)])
            self.broadcast_done = True

    def _broadcast(self, variables: Sequence[Any]) -> None:
        give_all_ranks([each for each in variables if key(each) not in self._local], self.root_rank)


class MetricAverageCallback(tf.keras.callbacks.Callback):
    """Replaces the metrics of an epoch by their averages over the ranks, for the callbacks that follow it in the list.

    ValueError if the ranks have different metrics.

    Args:
        device: accepted and not needed.
    """

    def __init__(self, device: str = "") -> None:
        super().__init__()

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        averages = average_metrics(basics.world(), logs or {})
        if logs is not None:
            logs.update(averages)


class BestModelCheckpoint(tf.keras.callbacks.ModelCheckpoint):
    """Rank 0 writes the best model so far.

    Args:
        filepath: the path; may be set later, as an attribute. If it is missing when the training begins, raises
            ValueError.
    """

    def __init__(self, monitor: str = "val_loss", verbose: int = 0, save_weights_only: bool = False, mode: str = "auto",
                 save_freq: Any = "epoch", filepath: Optional[str] = None) -> None:
        unset = "best.weights.h5" if save_weights_only else "best.keras"  # Keras 3 accepts only these endings
        super().__init__(filepath or unset, monitor=monitor, verbose=verbose, save_best_only=True,
                         save_weights_only=save_weights_only, mode=mode, save_freq=save_freq)
        if filepath is None:
            self.filepath = None

    def on_train_begin(self, logs: Logs = None) -> None:
        if self.filepath is None:
            raise ValueError("BestModelCheckpoint has no file: give it filepath, or set its attribute filepath")
        super().on_train_begin(logs)

    def on_train_batch_end(self, batch: int, logs: Logs = None) -> None:
        if basics.rank() == 0:
            super().on_train_batch_end(batch, logs)

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        if basics.rank() == 0:
            super().on_epoch_end(epoch, logs)
