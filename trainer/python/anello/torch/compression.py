"""How gradients are sent: unchanged, or rounded to 16 bits."""
from __future__ import annotations

from typing import Any, Optional, Tuple

import torch


class Compressor:
    """Rounds a tensor before it is sent, and restores its type afterwards."""

    wire: Optional[torch.dtype] = None

    @classmethod
    def compress(cls, tensor: torch.Tensor) -> Tuple[torch.Tensor, Any]:
        """The tensor to send, and the context for decompress()."""
        if cls.wire is None or not tensor.dtype.is_floating_point:
            return tensor, None
        return tensor.type(cls.wire), tensor.dtype

    @classmethod
    def decompress(cls, tensor: torch.Tensor, ctx: Any) -> torch.Tensor:
        """The tensor in its own type."""
        return tensor if ctx is None else tensor.type(ctx)


class NoneCompressor(Compressor):
    """Tensors are sent unchanged."""


class FP16Compressor(Compressor):
    """Floating-point tensors are sent as float16."""

    wire = torch.float16


class BF16Compressor(Compressor):
    """Floating-point tensors are sent as bfloat16, which has the range of float32."""

    wire = torch.bfloat16


class Compression:
    """The ways to compress: Compression.none, .fp16, .bf16."""

    none = NoneCompressor
    fp16 = FP16Compressor
    bf16 = BF16Compressor
