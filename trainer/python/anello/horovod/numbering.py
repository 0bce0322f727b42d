"""Numbers the optimizers, equally on all ranks."""
from __future__ import annotations

import weakref
from typing import Any, Tuple

from . import basics

_used: "weakref.WeakKeyDictionary[Any, Tuple[int, int]]" = weakref.WeakKeyDictionary()  # joins(), later optimizers


def next_number(agenda: Any) -> int:
    """The number of an optimizer that makes its first step with an agenda, or its first step after hvd.join().

    An optimizer is counted when it is first used, not when it is made: a rank may have made one more optimizer that it
    never uses.
    """
    joins, number = _used.get(agenda, (0, 0))
    if joins != basics.joins():
        number = 0
    _used[agenda] = basics.joins(), number + 1
    return number
