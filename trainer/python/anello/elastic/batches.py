"""The samples of each step. They depend only on the committed steps."""
from __future__ import annotations

import ctypes
import functools
from typing import Any, Iterator, List, NamedTuple

from .._library import lib
from ..arguments import integer
from .state import State

_MOST = 2**32 - 1


class Batch(NamedTuple):
    """A rank's share of a global batch.

    Attributes:
        samples: the numbers of this rank's samples in the data set. The list may be empty.
        size: the number of samples of all ranks together; a mean over the batch divides by it.
        epoch: from 0.
        step: the number of the step in the epoch, from 0.
    """

    samples: List[int]
    size: int
    epoch: int
    step: int


def batches(samples: Any, *, global_batch: int, seed: int, state: State, epochs: int = 1,
            name: str = "batches") -> Iterator[Batch]:
    """This rank's share of each batch that is not committed yet. The body of the loop commits each batch once.

    Each epoch has one order of all samples, made from the seed and the epoch alone, as in Anello's trainer. It is
    divided into global batches, and each batch into one share for each rank; the sizes of the shares differ by one
    sample at most. So the samples of a step do not depend on the number of ranks. The position is part of the state,
    and a commit counts it with the step: no sample is lost or used twice, whenever a rank ends. The last batch of an
    epoch may be smaller.

    Args:
        samples: the number of samples, or the data set.
        global_batch: samples of a step on all ranks together.
        name: distinguishes several loops of one training, each with a position of its own.
    """
    plan = Plan(len(samples) if hasattr(samples, "__len__") else samples, global_batch, seed, epochs)
    while state._position(name) < plan.steps:
        token = object()
        state._take(name, token)
        yield plan.share(state._position(name), state.world.rank, state.world.size)
        if state._has_taken(token):
            raise RuntimeError("the last batch was not committed: call state.commit(...) once for each batch")


class Plan:
    """Which samples each rank gets in each step.

    Attributes:
        steps: the number of steps of all epochs together.
    """

    def __init__(self, count: Any, global_batch: int, seed: int, epochs: int) -> None:
        self._count = integer("samples", count, 1, _MOST)
        self._global_batch = integer("global_batch", global_batch, 1, _MOST)
        self._seed = integer("seed", seed, 0, 2**64 - 1)
        self._steps_of_epoch = (self._count - 1) // self._global_batch + 1
        self.steps = self._steps_of_epoch * integer("epochs", epochs, 0, _MOST)

    def share(self, position: int, rank: int, size: int) -> Batch:
        """The share of rank `rank` of `size` ranks in the step with number `position`, from 0."""
        epoch, step = divmod(position, self._steps_of_epoch)
        first = step * self._global_batch
        total = min(self._global_batch, self._count - first)
        begin, end = part_of(total, rank, size)
        return Batch(_order(self._count, self._seed, epoch)[first + begin:first + end], total, epoch, step)


def part_of(total: int, rank: int, size: int) -> "tuple[int, int]":
    """The range [first, last) of `total` items that a rank gets; see the function of this name in trainer/sampler.hpp."""
    even, over = divmod(total, size)
    first = rank * even + min(rank, over)
    return first, first + even + (1 if rank < over else 0)


@functools.lru_cache(maxsize=2)  # a new world need not make the order of the epoch again
def _order(count: int, seed: int, epoch: int) -> Any:
    order = (ctypes.c_uint32 * count)()
    lib.anello_elastic_order(seed, epoch, order, count)
    return order
