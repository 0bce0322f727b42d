"""Tensors in GPU memory: whether reductions and broadcasts take them where they lie.

They do if every rank has a GPU and Anello's plugin for it: NCCL or pinned host memory then carries them. Otherwise, and
for the other operations, they are copied to host memory and back.
"""
from __future__ import annotations

from typing import Optional, Sequence

import torch

from .._library import lib
from ..agenda import Gpu

_enabled = False


def usable() -> bool:
    """True if this process has a GPU of NVIDIA that both torch and the library can use."""
    return bool(torch.cuda.is_available() and torch.version.cuda and lib.anello_gpu_count() > 0)


def enable(on_all_ranks: bool) -> None:
    """Called by init(), with the same on all ranks."""
    global _enabled
    _enabled = on_all_ranks


def enabled() -> bool:
    """True if tensors need not be copied to host memory."""
    return _enabled


def place(tensors: Sequence[torch.Tensor]) -> Optional[Gpu]:
    """The GPU that the tensors lie on, and the stream that makes them. None: they go through host memory.

    RuntimeError if they do not all lie in the same memory.
    """
    if not _enabled or not any(tensor.is_cuda for tensor in tensors):
        return None
    devices = {str(tensor.device) for tensor in tensors}
    if len(devices) > 1:
        raise RuntimeError(f"the tensors of one operation must lie in the same memory, but these lie on "
                           f"{' and '.join(sorted(devices))}")
    index = tensors[0].device.index
    return Gpu(index, torch.cuda.current_stream(index).cuda_stream)
