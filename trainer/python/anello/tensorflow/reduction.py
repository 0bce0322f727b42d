"""How tensors are reduced."""
from __future__ import annotations

from typing import NamedTuple, Optional

from ..horovod.process_sets import ProcessSet
from ..horovod.reductions import ReduceOp


class Reduction(NamedTuple):
    """How tensors are reduced, and between which ranks.

    Attributes:
        wire: "f16" or "bf16" if they travel rounded; "" or None if not.
        ignore_name_scope: in a graph the names of scopes are no part of the operation's name.
    """

    op: ReduceOp
    process_set: ProcessSet
    prescale: float = 1.0
    postscale: float = 1.0
    wire: Optional[str] = None
    ignore_name_scope: bool = False
