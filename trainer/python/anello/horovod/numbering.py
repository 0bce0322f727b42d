"""Numbers of optimizers, the same on all ranks."""
from __future__ import annotations

import weakref
from typing import Any, Tuple

from . import basics

_used: "weakref.WeakKeyDictionary[Any, Tuple[int, int]]" = weakref.WeakKeyDictionary()  # joins, and optimizers since


def next_number(agenda: Any) -> int:
    """The number of an optimizer that takes its first step with an agenda, or its first step after hvd.join().

    Counts optimizers when they are used and not when they are made: one rank may have made one more that it does not
    use.
    """
    joins, number = _used.get(agenda, (0, 0))
    if joins != basics.joins():
        number = 0
    _used[agenda] = basics.joins(), number + 1
    return number
