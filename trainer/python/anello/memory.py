"""Memory for tensors that other ranks of the same host read where it lies, which saves copies from 64 KiB on."""
from __future__ import annotations

import ctypes
import math
from typing import Any, Sequence

from ._library import lib
from .tensors import empty_like, from_memory, view
from .work import Owned


def zeros(shape: Sequence[int], like: Any) -> Any:
    """A tensor of zeros of the library and type of `like`, in such memory, which is freed with the last view of it."""
    item = view(empty_like(like, (1,)))
    memory = ctypes.c_void_p()
    lib.anello_allocate(max(1, math.prod(shape) * item.item_bytes), ctypes.byref(memory))
    return from_memory(like, memory.value or 0, shape, Owned(memory.value, lib.anello_deallocate))
