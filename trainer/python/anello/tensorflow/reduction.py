"""How tensors are reduced."""
from __future__ import annotations

from typing import NamedTuple, Optional

from ..horovod.process_sets import ProcessSet
from ..horovod.reductions import ReduceOp


class Reduction(NamedTuple):
    """How tensors are reduced, and between which ranks.

    Attributes:
        wire: "f16" or "bf16": the type in which elements are sent; "" or None: their own type.
        ignore_name_scope: in a graph, the operation's name does not contain the names of scopes.
    """

    op: ReduceOp
    process_set: ProcessSet
    prescale: float = 1.0
    postscale: float = 1.0
    wire: Optional[str] = None
    ignore_name_scope: bool = False
