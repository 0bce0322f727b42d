"""Numbers of optimizers, the same on all ranks."""
from __future__ import annotations

import weakref
from typing import Any, Tuple

from . import basics

_used: "weakref.WeakKeyDictionary[Any, Tuple[int, int]]" = weakref.WeakKeyDictionary()  # joins(), later optimizers


def next_number(agenda: Any) -> int:
    """The number of an optimizer that makes its first step with an agenda, or its first step after hvd.join().

    Counts optimizers when they are first used, not when they are made: a rank may have made one more and never use it.
    """
    joins, number = _used.get(agenda, (0, 0))
    if joins != basics.joins():
        number = 0
    _used[agenda] = basics.joins(), number + 1
    return number
