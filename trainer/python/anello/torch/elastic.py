"""Horovod's elastic interface for worlds of a fixed size.

The state is committed, restored and made equal on all ranks. If a rank fails the world ends, and `anello run --restarts
N` starts the script again; a script that goes on then loads its own checkpoint (`anello.save_on_rank_0` writes it).
"""
from __future__ import annotations

import copy
import functools
import random
from typing import Any, Callable, Dict, Iterator, List

import torch

from . import basics
from .functions import broadcast_object, broadcast_optimizer_state, broadcast_parameters


class State:
    """Values that all ranks commit, restore and synchronize: the keyword arguments, as attributes."""

    def __init__(self, **values: Any) -> None:
        self._names = list(values)
        self._callbacks: List[Callable[[], None]] = []
        for name, value in values.items():
            setattr(self, name, value)
        self.save()

    def register_reset_callbacks(self, callbacks: List[Callable[[], None]]) -> None:
        """Functions that are called when the world has changed."""
        self._callbacks.extend(callbacks)

    def on_reset(self) -> None:
        """Calls them."""
        for each in self._callbacks:
            each()

    def commit(self) -> None:
        """Remembers the values as they are now."""
        self.save()
        self.check_host_updates()

    def check_host_updates(self) -> None:
        """Nothing: the hosts of a world are fixed."""

    def save(self) -> None:
        """Remembers the values as they are now."""
        self._saved = {name: _saved(getattr(self, name)) for name in self._names}

    def restore(self) -> None:
        """Goes back to the values that were remembered last."""
        for name in self._names:
            setattr(self, name, _restored(getattr(self, name), self._saved[name]))

    def sync(self) -> None:
        """Gives all ranks the values of rank 0, and remembers them."""
        for name in self._names:
            setattr(self, name, _synchronized(getattr(self, name)))
        self.save()


ObjectState = State


class TorchState(State):
    """The state of a training: a model, an optimizer, samplers and plain values, as keyword arguments."""

    def __init__(self, model: Any = None, optimizer: Any = None, **values: Any) -> None:
        super().__init__(model=model, optimizer=optimizer, **values)


def _has_state(value: Any) -> bool:
    return hasattr(value, "state_dict") and hasattr(value, "load_state_dict")


def _saved(value: Any) -> Any:
    return copy.deepcopy(value.state_dict() if _has_state(value) else value)


def _restored(value: Any, saved: Any) -> Any:
    if not _has_state(value):
        return copy.deepcopy(saved)
    value.load_state_dict(copy.deepcopy(saved))
    return value


def _synchronized(value: Any) -> Any:
    if isinstance(value, torch.nn.Module):
        broadcast_parameters(value.state_dict(), 0)
    elif isinstance(value, torch.optim.Optimizer):
        broadcast_optimizer_state(value, 0)
    elif _has_state(value):
        value.load_state_dict(broadcast_object(value.state_dict(), 0))
    else:
        return broadcast_object(value, 0)
    return value


def run(train: Callable[..., Any]) -> Callable[..., Any]:
    """Decorates a function of a State: all ranks begin with the values of rank 0."""

    @functools.wraps(train)
    def wrapper(state: State, *arguments: Any, **options: Any) -> Any:
        state.sync()
        return train(state, *arguments, **options)

    return wrapper


class ElasticSampler(torch.utils.data.Sampler):
    """Divides a data set between the ranks, and leaves out what was processed in this epoch.

    Every rank gets equally many indices; some are given twice if they do not divide evenly.
    """

    def __init__(self, dataset: Any, shuffle: bool = True, seed: int = 0) -> None:
        self.dataset = dataset
        self.shuffle = shuffle
        self.seed = seed
        self.epoch = 0
        self.processed_num = 0
        self.reset()

    def set_epoch(self, epoch: int) -> None:
        """Begins an epoch: another order, nothing processed. Call it at the end of the epoch before."""
        self.epoch = epoch
        self.processed_num = 0
        self.reset()

    def record_batch(self, batch_idx: int, batch_size: int) -> None:
        """Says that every rank has processed a batch of this epoch."""
        self.processed_num += batch_size * self.num_replicas

    def state_dict(self) -> Dict[str, int]:
        """Where the sampler is."""
        return {"epoch": self.epoch, "processed_num": self.processed_num}

    def load_state_dict(self, state: Dict[str, int]) -> None:
        """Goes there."""
        self.epoch, self.processed_num = state["epoch"], state["processed_num"]
        self.reset()

    def reset(self) -> None:
        """Divides what is left between the ranks."""
        self.num_replicas, self.rank = basics.size(), basics.rank()
        order = list(range(len(self.dataset)))
        if self.shuffle:
            random.Random(self.seed + self.epoch).shuffle(order)
        self.remaining_indices = order[self.processed_num:]
        self.num_samples = -(-len(self.remaining_indices) // self.num_replicas)

    def __iter__(self) -> Iterator[int]:
        left = self.remaining_indices
        total = self.num_samples * self.num_replicas
        filled = (left * (total // len(left) + 1))[:total] if left else []
        return iter(filled[self.rank::self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples
