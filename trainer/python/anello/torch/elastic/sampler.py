"""A sampler that leaves out the indices that were processed before the ranks of the job changed."""
from __future__ import annotations

import random
from typing import Any, Dict, Iterable, Iterator, List, Set

import torch

from ...horovod import basics


class ElasticSampler(torch.utils.data.Sampler):
    """Divides a data set between the ranks, and leaves out the indices that were processed in this epoch.

    Args:
        pad: True: every rank gets the same number of indices; if the indices cannot be divided evenly, some are used
            twice, as in Horovod. False: every index is used once, and some ranks have one index less than others. Ranks
            that therefore have one batch less must call hvd.join() after their loop. Horovod does not have this
            argument.
    """

    def __init__(self, dataset: Any, shuffle: bool = True, seed: int = 0, pad: bool = True) -> None:
        self.dataset = dataset
        self.shuffle = shuffle
        self.seed = seed
        self.pad = pad
        self.epoch = 0
        self.processed_num = 0
        self.reset()

    def set_epoch(self, epoch: int) -> None:
        """Begins an epoch: makes a new order, and counts no index as processed. Call it at the end of the previous
        epoch."""
        self.epoch = epoch
        self.processed_num = 0
        self.reset()

    def record_batch(self, batch_idx: int, batch_size: int) -> None:
        """Records that every rank has processed a batch of this epoch."""
        self.processed_num += batch_size * self.num_replicas

    def record_indices(self, indices: Iterable[int]) -> None:
        """Records that this rank has processed these indices, and that every other rank has processed the same number.
        Older scripts use it."""
        self.record_batch(0, len(list(indices)))

    @property
    def processed_indices(self) -> Set[int]:
        """The indices of this epoch that all ranks have processed."""
        return set(self._order()[:self.processed_num])

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
        self.remaining_indices = self._order()[self.processed_num:]
        self.num_samples = len(self._of_rank())

    def _order(self) -> List[int]:
        order = list(range(len(self.dataset)))
        if self.shuffle:
            random.Random(self.seed + self.epoch).shuffle(order)
        return order

    def _of_rank(self) -> List[int]:
        left = self.remaining_indices
        if self.pad and left:
            total = -(-len(left) // self.num_replicas) * self.num_replicas
            left = (left * (total // len(left) + 1))[:total]
        return left[self.rank::self.num_replicas]

    def __iter__(self) -> Iterator[int]:
        return iter(self._of_rank())

    def __len__(self) -> int:
        return self.num_samples
