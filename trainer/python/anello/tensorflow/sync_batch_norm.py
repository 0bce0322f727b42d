"""Batch normalisation over the batches of all ranks."""
from __future__ import annotations

from typing import Any, List, Optional, Sequence, Tuple

import tensorflow as tf

from ..horovod.process_sets import ProcessSet, global_process_set
from ..horovod.reductions import Sum
from .graph import may_have_others
from .verbs import grouped_allreduce


class SyncBatchNormalization(tf.keras.layers.BatchNormalization):
    """tf.keras.layers.BatchNormalization with mean and variance over the batches of all ranks while training.

    Batches may have different sizes, and may be empty on some ranks. Sums are computed in float32 or float64, and sent
    in float64: types of 16 bits could not even count the elements.

    Args:
        fused: must be False.
    """

    def __init__(self, fused: Optional[bool] = False, process_set: ProcessSet = global_process_set,
                 **options: Any) -> None:
        if fused is not False:
            raise ValueError("SyncBatchNormalization cannot be fused: omit fused=")
        super().__init__(**options)
        if hasattr(self, "fused"):
            self.fused = False
        self.process_set = process_set

    def _moments(self, inputs: Any, *arguments: Any, **options: Any) -> Tuple[Any, Any]:
        """Mean and variance of each feature. Keras 3 gives a mask; Keras 2 gives axes, keep_dims and a mask."""
        self.process_set.rank()  # raises ValueError if this process does not belong to the set
        if not may_have_others(self.process_set):
            return super()._moments(inputs, *arguments, **options)
        if hasattr(self, "_reduction_axes"):
            mask, axes, keeps = options.get("mask", *arguments), self._reduction_axes, False
        else:
            mask, axes, keeps = options.get("mask"), arguments[0], options["keep_dims"]
        wide = inputs if inputs.dtype == tf.float64 else tf.cast(inputs, tf.float32)
        weights = tf.ones_like(wide) if mask is None else tf.zeros_like(wide) + tf.cast(mask, wide.dtype)[..., None]
        total, count = self._sums(axes, wide * weights, weights)
        count = tf.maximum(count, 1)
        mean = total / count
        # The variance needs a second sum, because the sum of squares minus the square of the sum would lose digits.
        squares, = self._sums(axes, tf.square(wide - tf.cast(mean, wide.dtype)) * weights)
        moments = [tf.cast(each, wide.dtype) for each in (mean, squares / count)]
        return tuple(each if keeps else tf.squeeze(each, list(axes)) for each in moments)

    def _sums(self, axes: Sequence[int], *tensors: tf.Tensor) -> List[tf.Tensor]:
        """The sums of each feature over all ranks, in float64."""
        mine = [tf.cast(tf.reduce_sum(each, list(axes), keepdims=True), tf.float64) for each in tensors]
        return grouped_allreduce(mine, op=Sum, process_set=self.process_set)
