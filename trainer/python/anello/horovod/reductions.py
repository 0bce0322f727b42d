"""The reductions, with Horovod's names and numbers."""
from __future__ import annotations

import enum
from typing import Optional, Sequence


class ReduceOp(enum.IntEnum):
    """The reductions, with Horovod's numbers."""

    Average = 0
    Sum = 1
    Adasum = 2
    Min = 3
    Max = 4
    Product = 5


Average = ReduceOp.Average
Sum = ReduceOp.Sum
Adasum = ReduceOp.Adasum
Min = ReduceOp.Min
Max = ReduceOp.Max
Product = ReduceOp.Product
_ENGINE_OPS = ("average", "sum", "", "min", "max", "product")  # a member of ReduceOp is an index


def engine_op(op: ReduceOp) -> str:
    """The engine's name of a reduction."""
    return _ENGINE_OPS[op]


def reduction_named(name: str) -> ReduceOp:
    """The reduction that has this name in the engine."""
    return ReduceOp(_ENGINE_OPS.index(name))


def reduction(op: Optional[int], average: Optional[bool] = None, refused: Sequence[int] = (),
              of: str = "this operation") -> ReduceOp:
    """The reduction for `op`, or for the older argument `average`. Adasum is refused with an error of its own."""
    if op is not None and average is not None:
        raise ValueError("give op or average, not both")
    if op is None:
        return Sum if average is False else Average
    if not isinstance(op, ReduceOp):
        if op not in list(ReduceOp):
            raise ValueError(f"op must be one of hvd.Average, Sum, Min, Max and Product, not {op!r}")
        op = ReduceOp(op)
    if op is Adasum or op in refused:
        raise NotImplementedError(f"hvd.{op.name} is not available for {of}: use hvd.Average or hvd.Sum")
    return op
