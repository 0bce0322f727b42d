"""Decides which tensors are sent as one operation."""
from __future__ import annotations

import math
from typing import Any, List, Sequence


def plan(tensors: Sequence[Any], limit_bytes: int) -> List[List[int]]:
    """Divides tensors into lists of their indices. The last tensor comes first, because gradients get ready in that
    order.

    Ranks with the same shapes get the same lists. A tensor of an unknown shape counts as empty.

    Args:
        tensors: objects with a shape and a dtype.
        limit_bytes: the largest size of a list, except for one tensor that is larger.
    """
    lists: List[List[int]] = []
    room = -1
    for k in reversed(range(len(tensors))):
        needed = _bytes(tensors[k])
        if needed > room:
            lists.append([])
            room = max(limit_bytes, needed)
        lists[-1].append(k)
        room -= needed
    return lists


def _bytes(tensor: Any) -> int:
    shape = tensor.shape
    return math.prod(shape.as_list()) * tensor.dtype.base_dtype.size if shape.is_fully_defined() else 0
