"""Tensors in GPU memory: decides whether reductions and broadcasts use them directly.

Reductions and broadcasts do so if every rank has a GPU and Anello's plugin for it: then NCCL or pinned host memory is
used. In all other cases, and for all other operations, tensors are copied to host memory and back.
"""
from __future__ import annotations

from typing import Dict, Optional, Sequence

import torch

from .._library import lib
from ..agenda import Gpu

_enabled = False
_own: Optional[int] = None  # the GPU of the first operation


def usable() -> bool:
    """True if this process has a GPU of NVIDIA, and the library has its plugin. Starts neither CUDA nor the GPU."""
    return bool(torch.version.cuda and torch.cuda.device_count() > 0 and lib.anello_gpu_available())


def missing() -> str:
    """Describes what this process needs to use tensors in GPU memory, and does not have."""
    if not torch.version.cuda:
        return "has a torch without CUDA"
    if torch.cuda.device_count() == 0:
        return "sees no GPU (nvidia-smi, CUDA_VISIBLE_DEVICES)"
    lib.anello_gpu_available()
    return f"cannot use GPUs: {lib.anello_last_error().decode('utf-8', 'replace')}"


def enable(on_all_ranks: bool) -> None:
    """Called by init(), with the same argument on all ranks."""
    global _enabled, _own
    _enabled, _own = on_all_ranks, None


def enabled() -> bool:
    """True if tensors need not be copied to host memory."""
    return _enabled


def place(tensors: Sequence[torch.Tensor]) -> Optional[Gpu]:
    """The GPU of the tensors, and the stream on which they are made. None: they must be copied to host memory.

    Tensors must be copied if they are on several devices, or on a different GPU from the tensors of the first
    operation.
    """
    global _own
    if not _enabled or len({tensor.device for tensor in tensors}) != 1 or not tensors[0].is_cuda:
        return None
    index = tensors[0].device.index
    if _own is None:
        _own = index
    return Gpu(index, torch.cuda.current_stream(index).cuda_stream) if index == _own else None


def own() -> Optional[Gpu]:
    """The GPU of this rank; for operations in which this rank takes part without tensors."""
    return Gpu(torch.cuda.current_device() if _own is None else _own, 0) if _enabled else None


class Streams:
    """The streams on which some tensors were made. autograd makes each gradient on the stream of one part of the
    model."""

    def __init__(self) -> None:
        self._seen: Dict[int, torch.cuda.Stream] = {}

    def note(self, tensor: torch.Tensor) -> None:
        """Records that the tensor has just been made, on the current stream."""
        if tensor.is_cuda:
            stream = torch.cuda.current_stream(tensor.device.index)
            self._seen[stream.cuda_stream] = stream

    def join(self) -> None:
        """Makes later work on the current stream wait for all recorded streams."""
        for stream in self._seen.values():
            current = torch.cuda.current_stream(stream.device)
            if current.cuda_stream != stream.cuda_stream:
                current.wait_stream(stream)
        self._seen.clear()
