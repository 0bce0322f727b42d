"""Batch normalisation over the batches of all ranks."""
from __future__ import annotations

import math
from typing import Any, Tuple

import torch
from torch.nn.modules.batchnorm import _BatchNorm

from ..horovod.process_sets import ProcessSet, global_process_set, require_set
from ..horovod.reductions import Sum
from ..horovod.refusals import submitting
from .autograd import allreduce


class SyncBatchNorm(_BatchNorm):
    """torch.nn.BatchNorm with mean and variance over the batches of all ranks while training.

    Batches may have different sizes, and may be empty on some ranks. Input: (batch, features, ...); the result has the
    input's type, whatever the type of the layer. Everything is computed in float32 or float64, and sums are sent in
    float64: types of 16 bits could not even count the elements.
    """

    def __init__(self, num_features: int, *arguments: Any, process_set: ProcessSet = global_process_set,
                 **options: Any) -> None:
        super().__init__(num_features, *arguments, **options)
        self.process_set = require_set(process_set)

    def _check_input_dim(self, input: torch.Tensor) -> None:
        if input.dim() < 2:
            raise ValueError(f"the input has {input.dim()} dimensions; at least 2 are needed: (batch, features, ...)")
        if input.shape[1] != self.num_features:
            raise ValueError(f"the input has {input.shape[1]} features, but the layer has {self.num_features}")
        if not input.is_floating_point():
            raise ValueError(f"the input must be of floating-point numbers, not {input.dtype}")

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Normalises the input, and keeps running means as torch.nn.BatchNorm does."""
        if not self.training or self.process_set.size() == 1:
            self._check_input_dim(input)
            return super().forward(input)
        with submitting("allreduce", None, self.process_set):
            self._check_input_dim(input)
        shape = (1, -1) + (1,) * (input.dim() - 2)
        wide = input.to(torch.promote_types(input.dtype, torch.float32))
        count, mean, away = self._mean(wide, shape)
        variance = self._variance(count, away)
        if self.track_running_stats and count > 0:
            self._track(count, mean.detach(), variance.detach())
        factor = (variance + self.eps).rsqrt()
        if self.affine:
            factor = factor * self.weight
        out = away * factor.to(wide.dtype).view(shape)
        return (out + self.bias.to(wide.dtype).view(shape) if self.affine else out).to(input.dtype)

    def _mean(self, wide: torch.Tensor, shape: Tuple[int, ...]) -> Tuple[int, torch.Tensor, torch.Tensor]:
        """Number and mean of a feature's elements over all ranks, and the difference of each element from the mean."""
        mine = wide.new_full((1,), math.prod(wide.shape[:1] + wide.shape[2:]), dtype=torch.float64)
        sums = self._sum_over_ranks(torch.cat([_sums(wide), mine]))
        count = int(sums[-1].item())
        if count == 1:
            raise ValueError("more than 1 value of each feature is needed to train, but the batches of all ranks have 1")
        mean = sums[:-1] / max(1, count)
        return count, mean, wide - mean.to(wide.dtype).view(shape)

    def _variance(self, count: int, away: torch.Tensor) -> torch.Tensor:
        """The variance over all ranks, from a second sum: the sum of squares minus the square of the sum would lose
        digits."""
        return self._sum_over_ranks(_sums(away * away)) / max(1, count)

    def _sum_over_ranks(self, sums: torch.Tensor) -> torch.Tensor:
        return allreduce(sums, op=Sum, process_set=self.process_set)

    def _track(self, count: int, mean: torch.Tensor, variance: torch.Tensor) -> None:
        self.num_batches_tracked += 1
        part = 1 / float(self.num_batches_tracked) if self.momentum is None else self.momentum
        self.running_mean += part * (mean - self.running_mean)
        self.running_var += part * (variance * count / (count - 1) - self.running_var)


def _sums(wide: torch.Tensor) -> torch.Tensor:
    """The sum of each feature in float64. The sums within a sample have the tensor's type: this takes a thirtieth of
    the time of float64."""
    samples = wide.sum(list(range(2, wide.dim()))) if wide.dim() > 2 else wide
    return samples.sum(0, dtype=torch.float64)
