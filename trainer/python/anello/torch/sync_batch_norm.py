"""Batch normalisation over the batches of all ranks."""
from __future__ import annotations

from typing import Any, Tuple

import torch
from torch.nn.modules.batchnorm import _BatchNorm

from .autograd import allreduce
from .ops import Sum
from .process_sets import ProcessSet, global_process_set


class SyncBatchNorm(_BatchNorm):
    """As torch.nn.BatchNorm, with mean and variance of the batches of all ranks while training.

    Batches may have different sizes. Input: (batch, features, ...).
    """

    def __init__(self, num_features: int, *arguments: Any, process_set: ProcessSet = global_process_set,
                 **options: Any) -> None:
        super().__init__(num_features, *arguments, **options)
        self.process_set = process_set

    def _check_input_dim(self, input: torch.Tensor) -> None:
        if input.dim() < 2:
            raise ValueError(f"the input has {input.dim()} dimensions; at least 2 are needed: (batch, features, ...)")

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Normalises the input, and keeps running means as torch.nn.BatchNorm does."""
        self._check_input_dim(input)
        if not self.training or self.process_set.size() == 1:
            return super().forward(input)
        count, mean, variance = self._statistics(input)
        if self.track_running_stats:
            self._track(count, mean.detach(), variance.detach())
        shape = (1, -1) + (1,) * (input.dim() - 2)
        out = (input - mean.view(shape)) * (variance + self.eps).rsqrt().view(shape)
        return out * self.weight.view(shape) + self.bias.view(shape) if self.affine else out

    def _statistics(self, input: torch.Tensor) -> Tuple[float, torch.Tensor, torch.Tensor]:
        """Elements of a feature, mean and variance of all ranks. Two sums: one would cancel digits."""
        others = [0] + list(range(2, input.dim()))
        mine = input.new_full((1,), input.numel() // input.shape[1])
        sums = allreduce(torch.cat([input.sum(others), mine]), op=Sum, process_set=self.process_set)
        count = sums[-1].item()
        mean = sums[:-1] / count
        away = input - mean.view((1, -1) + (1,) * (input.dim() - 2))
        squares = allreduce((away * away).sum(others), op=Sum, process_set=self.process_set)
        return count, mean, squares / count

    def _track(self, count: float, mean: torch.Tensor, variance: torch.Tensor) -> None:
        self.num_batches_tracked += 1
        part = 1 / float(self.num_batches_tracked) if self.momentum is None else self.momentum
        self.running_mean += part * (mean - self.running_mean)
        self.running_var += part * (variance * count / max(1, count - 1) - self.running_var)
