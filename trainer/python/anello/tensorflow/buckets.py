"""Which tensors travel as one operation."""
from __future__ import annotations

import math
from typing import Any, List, Sequence


def plan(tensors: Sequence[Any], limit_bytes: int) -> List[List[int]]:
    """Divides tensors into lists of their numbers, from the last one on: so gradients become ready.

    Ranks with the same shapes get the same lists. A tensor of an unknown shape counts as nothing.

    Args:
        tensors: what has a shape and a dtype.
        limit_bytes: a list takes no more than these, except for one tensor that is larger.
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
