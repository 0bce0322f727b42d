"""Horovod's elastic interface for worlds of a fixed size, with models, optimizers and samplers of torch."""
from __future__ import annotations

import random
from typing import Any, Dict, Iterator

import torch

from ..horovod import basics, elastic
from ..horovod.elastic import run
from ..horovod.refusals import on_all_ranks
from .functions import broadcast_optimizer_state, broadcast_parameters

__all__ = ["ElasticSampler", "ObjectState", "State", "TorchState", "run"]


class State(elastic.State):
    """Values that all ranks commit, restore and synchronize: the keyword arguments, as attributes."""

    def _synchronized(self, value: Any) -> Any:
        if isinstance(value, torch.nn.Module):
            broadcast_parameters(on_all_ranks(value.state_dict), 0)
        elif isinstance(value, torch.optim.Optimizer):
            broadcast_optimizer_state(value, 0)
        else:
            return super()._synchronized(value)
        return value


ObjectState = State


class TorchState(State):
    """The state of a training: a model, an optimizer, samplers and plain values, as keyword arguments."""

    def __init__(self, model: Any = None, optimizer: Any = None, **values: Any) -> None:
        super().__init__(model=model, optimizer=optimizer, **values)


class ElasticSampler(torch.utils.data.Sampler):
    """Divides a data set between the ranks, and leaves out the indices that were processed in this epoch.

    Every rank gets the same number of indices. If they cannot be divided evenly, some indices are used twice.
    """

    def __init__(self, dataset: Any, shuffle: bool = True, seed: int = 0) -> None:
        self.dataset = dataset
        self.shuffle = shuffle
        self.seed = seed
        self.epoch = 0
        self.processed_num = 0
        self.reset()

    def set_epoch(self, epoch: int) -> None:
        """Begins an epoch: with a new order, and nothing processed. Call it at the end of the previous epoch."""
        self.epoch = epoch
        self.processed_num = 0
        self.reset()

    def record_batch(self, batch_idx: int, batch_size: int) -> None:
        """Records that every rank has processed a batch of this epoch."""
        self.processed_num += batch_size * self.num_replicas

    def state_dict(self) -> Dict[str, int]:
        """The position of the sampler."""
        return {"epoch": self.epoch, "processed_num": self.processed_num}

    def load_state_dict(self, state: Dict[str, int]) -> None:
        """Sets the position to that of state_dict()."""
        self.epoch, self.processed_num = state["epoch"], state["processed_num"]
        self.reset()

    def reset(self) -> None:
        """Divides the remaining indices between the ranks."""
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
