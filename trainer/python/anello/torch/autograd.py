"""The operations that wait for their result. Gradients are supported for the operations that return a new tensor."""
from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence, Tuple, Type, Union

import torch
from torch.autograd import forward_ad

from ..horovod.compression import checked
from ..horovod.process_sets import ProcessSet, global_process_set, require_set
from ..horovod.reductions import Average, Sum, reduction
from ..horovod.refusals import submitting
from . import ops
from .compression import Compression, Compressor


class _Allreduce(torch.autograd.Function):
    """The gradient of a sum or average is reduced in the same way; other reductions have no gradient."""

    @staticmethod
    def forward(ctx: Any, options: Dict[str, Any], name: Optional[str], *tensors: torch.Tensor) -> Any:
        ctx.options = options
        return tuple(ops.grouped_allreduce_async(tensors, name=name, waits=True, **options).wait())

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        op = ctx.options["op"]
        if op not in (Average, Sum):
            raise NotImplementedError(f"allreduce with op=hvd.{op.name} has no gradient: use hvd.Average or hvd.Sum, or "
                                      "detach() its result")
        return (None, None, *_apply(_Allreduce, ctx.options, None, *gradients))


class _Allgather(torch.autograd.Function):
    """All ranks' gradients of the result are averaged; the gradient of an input is its part of that average."""

    @staticmethod
    def forward(ctx: Any, process_set: ProcessSet, name: Optional[str], *tensors: torch.Tensor) -> Any:
        ctx.process_set = process_set
        handle = ops.grouped_allgather_async(tensors, name, process_set, waits=True)
        made, rows = handle.wait_with_rows(process_set.size())
        ctx.parts = [_part(each, process_set.rank()) for each in rows]
        return tuple(made)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        options = {"op": Average, "process_set": ctx.process_set}
        averages = _apply(_Allreduce, options, None, *gradients)
        return (None, None, *[each.narrow(0, *part) for each, part in zip(averages, ctx.parts)])


def _part(rows: Sequence[int], rank: int) -> Tuple[int, int]:
    return sum(rows[:rank]), rows[rank]


class _Broadcast(torch.autograd.Function):
    """The gradient on the root is the average over the ranks; on the other ranks it is zero."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, root_rank: int, name: Optional[str], process_set: ProcessSet) -> Any:
        with submitting("broadcast", name, process_set):
            ctx.process_set = require_set(process_set)
            ctx.is_root = process_set.rank_of(root_rank) == process_set.rank()
        return ops.broadcast_async(tensor, root_rank, name, process_set, waits=True).wait()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        average = allreduce(gradient, op=Average, process_set=ctx.process_set)
        return average if ctx.is_root else average * 0, None, None, None


class _Alltoall(torch.autograd.Function):
    """The gradient of a row goes back to the rank from which the row came."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, splits: Any, name: Optional[str], process_set: ProcessSet) -> Any:
        if splits is None:
            with submitting("alltoall", name, process_set):
                splits = _equal_splits(tensor, process_set)
        output, received = ops.alltoall_async(tensor, splits, name, process_set, waits=True).wait()
        ctx.process_set, ctx.received = process_set, received
        ctx.mark_non_differentiable(received)
        return output, received

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor, _: Any) -> Any:
        back, _ = alltoall(gradient, ctx.received, process_set=ctx.process_set)
        return back, None, None, None


def _equal_splits(tensor: torch.Tensor, process_set: ProcessSet) -> torch.Tensor:
    ops._check(tensor)
    rows, ranks = tensor.shape[0] if tensor.dim() else 0, require_set(process_set).size()
    if tensor.dim() == 0 or rows % ranks:
        raise ValueError(f"the first dimension, {rows}, is not a multiple of the {ranks} ranks: give splits")
    return torch.full((ranks,), rows // ranks, dtype=torch.int32)


class _ReduceScatter(torch.autograd.Function):
    """The gradients are gathered. The gradients of a sum are also multiplied by the number of ranks."""

    @staticmethod
    def forward(ctx: Any, options: Dict[str, Any], name: Optional[str], *tensors: torch.Tensor) -> Any:
        ctx.options = options
        return tuple(ops.grouped_reducescatter_async(tensors, name=name, waits=True, **options).wait())

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        options = ctx.options
        factor = options["prescale_factor"] * options["postscale_factor"]
        if options["op"] == Sum:
            factor *= options["process_set"].size()
        gathered = _apply(_Allgather, options["process_set"], None, *[each * factor for each in gradients])
        return (None, None, *gathered)


class _NoGradient:
    """A context for a function whose gradient is not needed."""

    def mark_non_differentiable(self, *_: torch.Tensor) -> None:
        pass


def _is_recorded(arguments: Sequence[Any]) -> bool:
    """True if autograd needs a record of an operation with these arguments.

    Tensors with a tangent (torch.autograd.forward_ad) need a record too: then apply() is called, which refuses them.
    forward() would ignore the tangent.
    """
    if torch.is_grad_enabled():
        for each in arguments:
            if getattr(each, "requires_grad", False):
                return True
    return getattr(forward_ad, "_current_level", 0) >= 0  # -1 outside of dual_level()


def _apply(function: Type[torch.autograd.Function], *arguments: Any) -> Any:
    """Calls function.apply(). If no record is needed, calls only forward(), which takes 10 us less."""
    if _is_recorded(arguments):
        return function.apply(*arguments)
    return function.forward(_NoGradient(), *arguments)


def _compressed(call: str, tensors: Sequence[torch.Tensor], compression: Type[Compressor]) -> Any:
    """The tensors to send, and for each the context to decompress it."""
    if not tensors:
        raise ValueError(f"{call}: there must be a tensor")
    return zip(*[checked(compression).compress(tensor) for tensor in tensors])


def grouped_allreduce(tensors: Sequence[torch.Tensor], average: Optional[bool] = None, name: Optional[str] = None,
                      compression: Type[Compressor] = Compression.none, op: Optional[int] = None,
                      prescale_factor: float = 1.0, postscale_factor: float = 1.0,
                      process_set: ProcessSet = global_process_set) -> List[torch.Tensor]:
    """The reduction of each tensor of a list. The list is one operation; see allreduce()."""
    if compression is Compression.none and type(tensors) is list and tensors and not _is_recorded(tensors):
        return ops.grouped_allreduce_async(tensors, average, name, op, prescale_factor, postscale_factor, process_set,
                                           waits=True).wait()
    with submitting("allreduce", name, process_set):
        options = {"op": reduction(op, average), "prescale_factor": prescale_factor,
                   "postscale_factor": postscale_factor, "process_set": process_set}
        sent, contexts = _compressed("grouped_allreduce", tensors, compression)
    made = _apply(_Allreduce, options, name, *sent)
    return [compression.decompress(each, ctx) for each, ctx in zip(made, contexts)]


def allreduce(tensor: torch.Tensor, average: Optional[bool] = None, name: Optional[str] = None,
              compression: Type[Compressor] = Compression.none, op: Optional[int] = None,
              prescale_factor: float = 1.0, postscale_factor: float = 1.0,
              process_set: ProcessSet = global_process_set) -> torch.Tensor:
    """The reduction of a tensor over all ranks, as a new tensor. For the arguments see allreduce_async()."""
    if ops.is_plain_number(tensor):
        return ops.allreduce_async(tensor, average, name, op, prescale_factor, postscale_factor, process_set,
                                   waits=True).wait()
    return grouped_allreduce([tensor], average, name, compression, op, prescale_factor, postscale_factor,
                             process_set)[0]


def grouped_allreduce_(tensors: Sequence[torch.Tensor], average: Optional[bool] = None, name: Optional[str] = None,
                       op: Optional[int] = None, prescale_factor: float = 1.0, postscale_factor: float = 1.0,
                       process_set: ProcessSet = global_process_set) -> List[torch.Tensor]:
    """Calls grouped_allreduce_async_(), and waits."""
    return ops.grouped_allreduce_async_(tensors, average, name, op, prescale_factor, postscale_factor, process_set,
                                        waits=True).wait()


def allreduce_(tensor: torch.Tensor, average: Optional[bool] = None, name: Optional[str] = None,
               op: Optional[int] = None, prescale_factor: float = 1.0, postscale_factor: float = 1.0,
               process_set: ProcessSet = global_process_set) -> torch.Tensor:
    """Calls allreduce_async_(), and waits."""
    return grouped_allreduce_([tensor], average, name, op, prescale_factor, postscale_factor, process_set)[0]


def grouped_allgather(tensors: Sequence[torch.Tensor], name: Optional[str] = None,
                      process_set: ProcessSet = global_process_set) -> List[torch.Tensor]:
    """For each tensor of a list, the tensors of all ranks, concatenated."""
    return list(_apply(_Allgather, process_set, name, *tensors))


def allgather(tensor: torch.Tensor, name: Optional[str] = None,
              process_set: ProcessSet = global_process_set) -> torch.Tensor:
    """The tensors of all ranks, concatenated; their first dimensions may differ. See allgather_async()."""
    if ops.is_plain_number(tensor):
        return ops.allgather_async(tensor, name, process_set, waits=True).wait()
    return grouped_allgather([tensor], name, process_set)[0]


def broadcast(tensor: torch.Tensor, root_rank: int, name: Optional[str] = None,
              process_set: ProcessSet = global_process_set) -> torch.Tensor:
    """Returns the root's tensor as a new tensor, or the root's number if `tensor` is a number."""
    if ops.is_plain_number(tensor):
        return ops.broadcast_async(tensor, root_rank, name, process_set, waits=True).wait()
    return _apply(_Broadcast, tensor, root_rank, name, process_set)


def broadcast_(tensor: torch.Tensor, root_rank: int, name: Optional[str] = None,
               process_set: ProcessSet = global_process_set) -> torch.Tensor:
    """Copies the root's tensor into the tensor of every other rank."""
    return ops.broadcast_async_(tensor, root_rank, name, process_set, waits=True).wait()


def alltoall(tensor: torch.Tensor, splits: Union[None, torch.Tensor, Sequence[int]] = None,
             name: Optional[str] = None, process_set: ProcessSet = global_process_set) -> Any:
    """Exchanges rows; see alltoall_async(). If splits are given, the result is a pair."""
    output, received = _apply(_Alltoall, tensor, splits, name, process_set)
    return output if splits is None else (output, received)


def grouped_reducescatter(tensors: Sequence[torch.Tensor], name: Optional[str] = None,
                          compression: Type[Compressor] = Compression.none, op: Optional[int] = Average,
                          process_set: ProcessSet = global_process_set, prescale_factor: float = 1.0,
                          postscale_factor: float = 1.0) -> List[torch.Tensor]:
    """For each tensor of a list, this rank's rows of its reduction."""
    with submitting("reduce_scatter", name, process_set):
        options = {"op": reduction(op), "prescale_factor": prescale_factor, "postscale_factor": postscale_factor,
                   "process_set": process_set}
        sent, contexts = _compressed("grouped_reducescatter", tensors, compression)
    made = _apply(_ReduceScatter, options, name, *sent)
    return [compression.decompress(each, ctx) for each, ctx in zip(made, contexts)]


def reducescatter(tensor: torch.Tensor, name: Optional[str] = None,
                  compression: Type[Compressor] = Compression.none, op: Optional[int] = Average,
                  process_set: ProcessSet = global_process_set, prescale_factor: float = 1.0,
                  postscale_factor: float = 1.0) -> torch.Tensor:
    """This rank's rows of the reduction. If rows are left over, the first ranks get one more."""
    return grouped_reducescatter([tensor], name, compression, op, process_set, prescale_factor, postscale_factor)[0]
