"""Converts the reductions of torch.distributed to options of the engine's verbs."""
from __future__ import annotations

from typing import Any, Dict, Sequence

import torch
import torch.distributed as dist

from .distributed_buffers import is_float8

_OPS = {dist.ReduceOp.SUM: "sum", dist.ReduceOp.PRODUCT: "product", dist.ReduceOp.MIN: "min", dist.ReduceOp.MAX: "max",
        dist.ReduceOp.AVG: "average", dist.ReduceOp.BAND: "bit_and", dist.ReduceOp.BOR: "bit_or",
        dist.ReduceOp.BXOR: "bit_xor"}


def reduction(opts: Any, tensors: Sequence[torch.Tensor]) -> Dict[str, Any]:
    """The operator, and the factor of this rank's input, as options of the engine's verbs."""
    if any(map(is_float8, tensors)):
        raise TypeError("tensors of float8 can be sent, but not reduced: convert them, for example to torch.bfloat16")
    given = dist.ReduceOp.SUM if opts is None else opts.reduceOp
    if given == getattr(dist.ReduceOp, "PREMUL_SUM", None):
        return {"op": "sum", "prescale": _premul_factor(given)}
    for op, name in _OPS.items():
        if given == op:
            if name not in ("sum", "average") and any(each.is_complex() for each in tensors):
                raise RuntimeError(f"complex tensors can only be summed or averaged; {name} is for real tensors")
            return {"op": name, "prescale": 1.0}
    raise RuntimeError(f"the reduction {given} is not available")


def _premul_factor(op: Any) -> float:
    """The factor of PREMUL_SUM. torch shows it only in the operator's pickled form, and before 2.0 not at all."""
    state = op.__getstate__() if hasattr(op, "__getstate__") else None
    factor = state[1] if isinstance(state, tuple) and len(state) == 2 else None
    if not isinstance(factor, (float, torch.Tensor)) or isinstance(factor, torch.Tensor) and factor.numel() != 1:
        raise RuntimeError("PREMUL_SUM needs one number as its factor, and torch 2 or later: multiply the tensor "
                           "by the factor, and use SUM")
    return float(factor)
