"""How tensors are sent: unchanged, or rounded to 16 bits."""
from __future__ import annotations

from typing import Any, ContextManager, List, Optional, Sequence, Tuple

import tensorflow as tf

from ..horovod.compression import checked
from . import operations
from .eager import preparing
from .reduction import Reduction


class Compressor:
    """Rounds a tensor before it is sent, and restores its type afterwards."""

    type: Optional[tf.DType] = None  # the type in which tensors are sent
    wire: Optional[str] = None  # the engine's name of this type

    @classmethod
    def compress(cls, tensor: Any) -> Tuple[Any, Any]:
        """The tensor to send, and the context for decompress()."""
        if cls.type is None or not tensor.dtype.is_floating:
            return tensor, None
        return tf.cast(tensor, cls.type), tensor.dtype

    @classmethod
    def decompress(cls, tensor: Any, ctx: Any) -> Any:
        """The tensor in its own type."""
        return tensor if ctx is None else tf.cast(tensor, ctx)


class NoneCompressor(Compressor):
    """Tensors are sent unchanged."""


class FP16Compressor(Compressor):
    """Floating-point tensors are sent as float16."""

    type, wire = tf.float16, "f16"


class BF16Compressor(Compressor):
    """Floating-point tensors are sent as bfloat16, which has the range of float32."""

    type, wire = tf.bfloat16, "bf16"


class Compression:
    """The ways to compress: Compression.none, .fp16, .bf16."""

    none = NoneCompressor
    fp16 = FP16Compressor
    bf16 = BF16Compressor


def allreduces(lists: Sequence[Sequence[tf.Tensor]], how: Reduction, names: Sequence[Optional[str]],
               compression: Any) -> List[List[tf.Tensor]]:
    """Does the same as operations.allreduces(), with compression.

    With Compression.fp16 and .bf16 the engine rounds the elements that it sends, and sums in the tensors' own type. If
    the engine cannot do that, or if the program has its own compressor, this function calls the compressor's compress()
    and decompress().
    """
    if compression is NoneCompressor:
        return operations.allreduces(lists, how, names)
    wire = getattr(compression, "wire", None)
    if wire and all(each.dtype in (tf.float32, tf.float64) for tensors in lists for each in tensors):
        return operations.allreduces(lists, how._replace(wire=wire), names)
    return compressed(lambda sent: operations.allreduces(sent, how, names), lists, compression,
                      preparing("allreduce", names[0] if names else None, how.process_set))


def compressed(reduce: Any, lists: Sequence[Sequence[tf.Tensor]], compression: Any,
               compressing: ContextManager[None]) -> List[List[tf.Tensor]]:
    """Reduces lists of tensors: compresses them in the block `compressing`, and decompresses the results."""
    with compressing:
        pairs = [[checked(compression).compress(each) for each in tensors] for tensors in lists]
    made = reduce([[sent for sent, _ in each] for each in pairs])
    return [[compression.decompress(each, ctx) for each, (_, ctx) in zip(tensors, its)]
            for tensors, its in zip(made, pairs)]
