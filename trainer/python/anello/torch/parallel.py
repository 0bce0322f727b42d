"""parallelize(): turns a training of one process into one of many processes, in one call."""
from __future__ import annotations

from typing import Any, NamedTuple, Sequence

import torch

from ..horovod import basics
from ..training import save_on_rank_0
from .distributed_optimizer import DistributedOptimizer
from .functions import broadcast_optimizer_state, broadcast_parameters


class Parallel(NamedTuple):
    """A training on all ranks."""

    model: torch.nn.Module
    optimizer: Any
    rank: int
    size: int

    def sampler(self, dataset: Any, shuffle: bool = True) -> torch.utils.data.Sampler:
        """Divides a data set between the ranks. Call the sampler's set_epoch() before each epoch."""
        return torch.utils.data.distributed.DistributedSampler(dataset, self.size, self.rank, shuffle=shuffle)

    def save(self, path: Any, **more: Any) -> None:
        """Writes the model, the optimizer and all given objects on rank 0. The file is complete, or not written at
        all."""
        state = {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict(), **more}
        save_on_rank_0(basics.world(), path, lambda file: torch.save(state, file))


def parallelize(model: torch.nn.Module, optimizer: torch.optim.Optimizer, *, scale_learning_rate: bool = True,
                root_rank: int = 0, **options: Any) -> Parallel:
    """Joins the world, gives all ranks the root's parameters and optimizer state, and averages gradients.

    In a world of one process, the function changes nothing, so a script needs no second version.

    Args:
        scale_learning_rate: multiplies the learning rate by the number of ranks, because a step's batch is larger by
            this factor.
        options: see DistributedOptimizer.
    """
    basics.init()
    if scale_learning_rate:
        for group in optimizer.param_groups:
            group["lr"] *= basics.size()
    broadcast_parameters(model.state_dict(), root_rank)
    broadcast_optimizer_state(optimizer, root_rank)
    made = DistributedOptimizer(optimizer, named_parameters=_names(model, optimizer), **options)
    return Parallel(model, made, basics.rank(), basics.size())


def _names(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> Any:
    """The names of the model's parameters; None if the optimizer has other parameters too."""
    named = list(model.named_parameters())
    ours = {parameter for _, parameter in named}
    trained: Sequence[Any] = [each for group in optimizer.param_groups for each in group["params"]]
    return named if all(each in ours for each in trained) else None
