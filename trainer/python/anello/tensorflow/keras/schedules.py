"""Callbacks that change the learning rate."""
from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Union

import tensorflow as tf

from ...horovod import basics

Logs = Optional[Dict[str, Any]]


class LearningRateScheduleCallback(tf.keras.callbacks.Callback):
    """From start_epoch on and before end_epoch, sets the learning rate to initial_lr * multiplier.

    Args:
        multiplier: a function of the epoch, or a number. A number is raised to the power `epoch - start_epoch`.
        staircase: True: the rate changes once in each epoch. False: it changes with each batch, and the function also
            gets fractions of epochs.
        momentum_correction: whether the velocities are scaled with the rate, because they contain the rates of past
            steps (Goyal et al., 2017).
        steps_per_epoch: the number of steps; needed if Keras cannot find the number itself.
    """

    def __init__(self, initial_lr: float, multiplier: Union[float, Callable[[float], float]], start_epoch: int = 0,
                 end_epoch: Optional[int] = None, staircase: bool = True, momentum_correction: bool = True,
                 steps_per_epoch: Optional[int] = None) -> None:
        super().__init__()
        if initial_lr is None:
            raise ValueError("initial_lr is required")
        self.initial_lr = initial_lr
        self.start_epoch = start_epoch
        self.end_epoch = end_epoch
        self.staircase = staircase
        self.momentum_correction = momentum_correction
        self.steps_per_epoch = steps_per_epoch
        self.current_epoch = 0
        self.multiplier: Callable[[float], float] = (multiplier if callable(multiplier)
                                                     else lambda epoch: multiplier**(epoch - start_epoch))

    def on_train_begin(self, logs: Logs = None) -> None:
        if not self.staircase and not self.steps_per_epoch:
            self.steps_per_epoch = self.params.get("steps")
            if not self.steps_per_epoch:
                raise ValueError(f"Keras does not have the number of batches in an epoch: give {type(self).__name__} "
                                 "steps_per_epoch")

    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None:
        self.current_epoch = epoch

    def on_train_batch_begin(self, batch: int, logs: Logs = None) -> None:
        if self.current_epoch < self.start_epoch or (self.end_epoch is not None
                                                     and self.current_epoch >= self.end_epoch):
            return
        if not self.staircase:
            assert self.steps_per_epoch is not None
            self._set_rate(self.multiplier(self.current_epoch + batch / self.steps_per_epoch))
        elif batch == 0:
            self._set_rate(self.multiplier(self.current_epoch))

    def _set_rate(self, factor: float) -> None:
        optimizer, rate = self.model.optimizer, self.initial_lr * factor
        before = rate_of(optimizer)
        optimizer.learning_rate = rate
        for each in _velocities(optimizer) if self.momentum_correction and before and rate != before else ():
            each.assign(each * tf.cast(rate / before, each.dtype))

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        if logs is not None:
            logs["lr"] = rate_of(self.model.optimizer)


def rate_of(optimizer: Any) -> float:
    """The current learning rate."""
    return float(tf.convert_to_tensor(optimizer.learning_rate))


def _velocities(optimizer: Any) -> List[Any]:
    """The variables in which an optimizer with momentum holds the sums of past steps."""
    optimizer = getattr(optimizer, "inner_optimizer", optimizer)
    if not getattr(optimizer, "momentum", 0):
        return []
    made = getattr(optimizer, "momentums", None) or getattr(optimizer, "_momentums", None) or []
    return [each for each in made if each is not None]


class LearningRateWarmupCallback(LearningRateScheduleCallback):
    """Within the first epochs, raises the learning rate batch by batch from initial_lr / hvd.size() to initial_lr.

    Args:
        verbose: 1: rank 0 prints a line when the rate is reached.
    """

    def __init__(self, initial_lr: float, warmup_epochs: int = 5, momentum_correction: bool = True,
                 steps_per_epoch: Optional[int] = None, verbose: int = 0) -> None:
        super().__init__(initial_lr, self._part, end_epoch=warmup_epochs, staircase=False,
                         momentum_correction=momentum_correction, steps_per_epoch=steps_per_epoch)
        self.verbose = verbose

    def _part(self, epoch: float) -> float:
        """The factor for the learning rate. The last batch of an epoch has the factor of the end of the epoch."""
        assert self.steps_per_epoch is not None and self.end_epoch is not None
        done = (epoch + 1 / self.steps_per_epoch) / self.end_epoch
        return (1 + done * (basics.size() - 1)) / basics.size()

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        super().on_epoch_end(epoch, logs)
        if self.verbose and epoch + 1 == self.end_epoch and basics.rank() == 0:
            print(f"\nEpoch {epoch + 1}: the learning rate has reached {rate_of(self.model.optimizer):g}.")
