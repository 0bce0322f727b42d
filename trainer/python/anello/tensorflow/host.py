"""Eager tensors in host memory, as the engine takes and fills them."""
from __future__ import annotations

import ctypes
import functools
import math
from typing import Any, Dict, Optional, Sequence, Tuple

import numpy
import tensorflow as tf

from .._library import C
from ..view import View

_TYPES: Dict[tf.DType, int] = {
    tf.float16: C.F16, tf.bfloat16: C.BF16, tf.float32: C.F32, tf.float64: C.F64, tf.int8: C.I8, tf.uint8: C.U8,
    tf.int16: C.I16, tf.uint16: C.U16, tf.int32: C.I32, tf.uint32: C.U32, tf.int64: C.I64, tf.uint64: C.U64,
    tf.bool: C.BOOL}
# The types of which every version of TensorFlow makes tensors without filling them: 2.13 has no others.
_UNFILLED = {tf.float16, tf.bfloat16, tf.float32, tf.float64, tf.int32, tf.int64, tf.bool}
_COPIED_BYTES = 1 << 15  # up to this a copy takes less time than to have TensorFlow make a tensor
_SHAPES_KEPT = 1024


def view(tensor: tf.Tensor) -> View:
    """Where an eager tensor's elements lie. It is an input: a tensor is a value, which nothing may change.

    TypeError if elements of its type cannot travel. One that lies on a GPU is copied.
    """
    dtype = _TYPES.get(tensor.dtype)
    if dtype is None:
        remedy = ("use hvd.broadcast_object() or hvd.allgather_object()" if tensor.dtype == tf.string
                  else "cast them, or send parts of them")
        raise TypeError(f"tensors of {tensor.dtype.name} cannot be sent: {remedy}")
    elements = numpy.asarray(tensor._numpy())  # not a copy, except for a tensor without dimensions
    return View(elements.ctypes.data, elements.shape, dtype, "tensors of TensorFlow cannot be changed",
                (tensor, elements))


class Made:
    """A new tensor that the engine fills: `view` until it is full, then `tensor()`."""

    def __init__(self, like: View, dtype: tf.DType, shape: Tuple[int, ...]) -> None:
        self._tensor: Optional[tf.Tensor] = None
        if dtype in _UNFILLED and math.prod(shape) * like.item_bytes > _COPIED_BYTES:
            self._tensor = _empty(shape, dtype)
            self._elements = self._tensor._numpy()
        else:
            self._elements = numpy.empty(shape, dtype.as_numpy_dtype)
        self.view = View(self._elements.ctypes.data, shape, like.dtype, "", self._elements)

    def fill(self, given: View) -> None:
        """Copies the elements of a tensor of this shape."""
        ctypes.memmove(self.view.address, given.address, given.count * given.item_bytes)

    def tensor(self) -> tf.Tensor:
        """The tensor, which is full now."""
        return tf.constant(self._elements) if self._tensor is None else self._tensor


def copied(made: Sequence[View], types: Sequence[tf.DType]) -> Any:
    """New tensors with what the engine has made in its own memory."""
    tensors = [Made(each, dtype, each.shape) for each, dtype in zip(made, types)]
    for tensor, each in zip(tensors, made):
        tensor.fill(each)
    return [each.tensor() for each in tensors]


def _empty(shape: Tuple[int, ...], dtype: tf.DType) -> tf.Tensor:
    with tf.device("CPU:0"):
        return tf.raw_ops.Empty(shape=_as_tensor(shape), dtype=dtype)


@functools.lru_cache(_SHAPES_KEPT)
def _as_tensor(shape: Tuple[int, ...]) -> tf.Tensor:
    """Converting a list would take longer than all else."""
    with tf.init_scope(), tf.device("CPU:0"):
        return tf.constant(shape, tf.int32, (len(shape),))
