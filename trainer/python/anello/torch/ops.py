"""The operations that return a handle, and the functions that take a handle.

Operations of different ranks match by their names; unnamed operations are counted. Tensors may be on any device and
have any strides: the engine gets a copy if it cannot use them directly. Reductions and broadcasts use tensors in GPU
memory directly (gpus.py).
"""
from __future__ import annotations

from typing import Any, Callable, List, Optional, Sequence, Tuple, Union

import torch

from ..agenda import Gpu, Operation
from ..arguments import factor
from ..horovod.process_sets import ProcessSet, global_process_set, require_set
from ..horovod.reductions import Average, Max, Min, Product, ReduceOp, engine_op, reduction
from ..horovod.refusals import submitting
from ..readers import require_dense, view_plain
from ..scalars import is_number
from ..tensors import view
from ..view import View, kind_of
from . import gpus


def is_plain_number(value: Any) -> bool:
    """True for a number of Python or numpy. It is sent without a tensor of torch."""
    return not isinstance(value, torch.Tensor) and is_number(value)


class Handle:
    """An operation under way. `finish` makes the result that synchronize() returns."""

    def __init__(self, operation: Operation, finish: Callable[[Any], Any]) -> None:
        self._operation: Optional[Operation] = operation
        self._finish = finish
        self._result: Any = None

    def done(self) -> bool:
        """True if the operation is complete or has failed."""
        return self._operation is None or self._operation.done()

    def wait(self) -> Any:
        """Blocks until the operation is done, and returns its result."""
        if self._operation is not None:
            self._result = self._finish(self._operation.wait())
            self._operation = None
        return self._result

    def wait_with_rows(self, ranks: int) -> Any:
        """Waits for an allgather. Returns its result, and for each tensor the number of rows of each rank."""
        assert self._operation is not None
        operation = self._operation
        result = self.wait()
        tensors = len(result) if isinstance(result, list) else 1
        return result, [list(operation.rows(index, ranks)) for index in range(tensors)]


def poll(handle: Handle) -> bool:
    """True if synchronize(handle) would not block."""
    return _handle(handle, "poll").done()


def _handle(given: Any, call: str) -> Handle:
    if not isinstance(given, Handle):
        remedy = "; call the function that sparse_allreduce_async() returned" if callable(given) else ""
        raise TypeError(f"{call}() takes what a call that ends in _async has returned, not {given!r}{remedy}")
    return given


def synchronize(handle: Handle) -> Any:
    """Blocks until the operation is done, and returns its result.

    Raises HorovodInternalError if a rank has failed, or if ranks differ in shapes, types or arguments. After such a
    difference, later operations still work.
    """
    return _handle(handle, "synchronize").wait()


def _check(tensor: torch.Tensor) -> None:
    if not isinstance(tensor, torch.Tensor):
        raise ValueError(f"a torch tensor is needed, not {kind_of(tensor)}")
    if tensor.is_sparse:
        raise ValueError("the tensor is sparse: use sparse_allreduce_async(), or to_dense()")
    require_dense(tensor)


def _usable(tensor: torch.Tensor, gpu: Optional[Gpu] = None) -> torch.Tensor:
    """The tensor itself if the engine can use it, otherwise a copy: on that GPU, or in host memory."""
    _check(tensor)
    tensor = tensor.detach()
    return (tensor.cpu() if gpu is None else tensor).resolve_neg().contiguous()


def _require_places(tensors: Sequence[torch.Tensor]) -> None:
    """ValueError if a tensor cannot take a result of its shape."""
    for tensor in tensors:
        steps = tensor.stride()
        if 0 in steps and any(step == 0 and count > 1 for step, count in zip(steps, tensor.shape)):
            raise ValueError("several elements of the tensor lie in one place, as after expand(), so it cannot take a "
                             "result: give its clone()")


def _factors(prescale: Any, postscale: Any) -> Tuple[float, float]:
    return factor("prescale_factor", prescale), factor("postscale_factor", postscale)


def _place(tensors: Sequence[torch.Tensor], factors: Tuple[float, float]) -> Optional[Gpu]:
    """Returns gpus.place(). But returns None for integers with factors, because these are multiplied in host memory."""
    for tensor in tensors:
        _check(tensor)
    gpu = gpus.place(tensors)
    if gpu is None and gpus.enabled() and len({tensor.is_cuda for tensor in tensors}) > 1:
        raise RuntimeError("the tensors of one operation must lie in the same memory, but some lie in host memory and "
                           "some on a GPU")
    if factors != (1.0, 1.0) and not all(tensor.is_floating_point() for tensor in tensors):
        return None
    return gpu


def _all_usable(tensors: Sequence[torch.Tensor], factors: Tuple[float, float] = (1.0, 1.0)
                ) -> Tuple[Optional[Gpu], List[torch.Tensor], List[View]]:
    """Returns the result of _place(), a list with each tensor or a copy that the engine can use, and the views of that
    list."""
    views: List[Any] = [view_plain(tensor) for tensor in tensors]
    if None not in views:
        return None, list(tensors), views
    gpu = _place(tensors, factors)
    usable = [_usable(tensor, gpu) for tensor in tensors]
    return gpu, usable, [view(each, None if gpu is None else gpu.device) for each in usable]


def _in_place(tensors: Sequence[torch.Tensor], usable: Sequence[torch.Tensor]) -> Callable[[Any], List[torch.Tensor]]:
    """Returns a function that copies results to the tensors that do not have them yet.

    A tensor does not have its result if the engine got a copy of the tensor, or if the program gave the tensor other
    memory during the operation.
    """
    results = [each.detach() for each in usable]

    def finish(_: Any) -> List[torch.Tensor]:
        for tensor, used in zip(tensors, results):
            if used.data_ptr() != tensor.data_ptr():
                tensor.detach().copy_(used)
        return list(tensors)

    return finish


def _on_device_of(tensors: Sequence[torch.Tensor]) -> Callable[[Any], List[torch.Tensor]]:
    for tensor in tensors:
        if not tensor.is_cpu:
            break
    else:
        return list
    devices = [tensor.device for tensor in tensors]
    return lambda made: [each.to(device) for each, device in zip(made, devices)]


def _only(finish: Callable[[Any], List[torch.Tensor]]) -> Callable[[Any], torch.Tensor]:
    return lambda made: finish(made)[0]


def _start_allreduce(tensors: Sequence[torch.Tensor], in_place: bool, op: ReduceOp, name: Optional[str],
                     factors: Tuple[float, float], process_set: ProcessSet,
                     waits: bool) -> Tuple[Operation, List[torch.Tensor]]:
    """Returns the operation, and the tensors that will have its results."""
    gpu, usable, given = _all_usable(tensors, factors)
    if in_place:
        _require_places(tensors)
    made = made_views = None
    if not in_place:
        made = [torch.empty_like(each) for each in usable]
        made_views = [View(new.data_ptr(), each.shape, each.dtype, "", new) for new, each in zip(made, given)]
    prescale, postscale = factors
    agenda = require_set(process_set).agenda
    return agenda.allreduce(given, made_views, engine_op(op), name=name, prescale=prescale, postscale=postscale,
                            waits=waits, gpu=gpu), made or usable


def grouped_allreduce_async(tensors: Sequence[torch.Tensor], average: Optional[bool] = None,
                            name: Optional[str] = None, op: Optional[int] = None, prescale_factor: float = 1.0,
                            postscale_factor: float = 1.0, process_set: ProcessSet = global_process_set,
                            waits: bool = False) -> Handle:
    """Starts the reduction of a list. The list is one operation; its result is a list of new tensors."""
    with submitting("allreduce", name, process_set):
        operation, made = _start_allreduce(tensors, False, reduction(op, average), name,
                                           _factors(prescale_factor, postscale_factor), process_set, waits)
    place = _on_device_of(tensors)
    return Handle(operation, lambda _: place(made))


def grouped_allreduce_async_(tensors: Sequence[torch.Tensor], average: Optional[bool] = None,
                             name: Optional[str] = None, op: Optional[int] = None, prescale_factor: float = 1.0,
                             postscale_factor: float = 1.0, process_set: ProcessSet = global_process_set,
                             waits: bool = False) -> Handle:
    """Like grouped_allreduce_async(), but in place."""
    with submitting("allreduce", name, process_set):
        operation, usable = _start_allreduce(tensors, True, reduction(op, average), name,
                                             _factors(prescale_factor, postscale_factor), process_set, waits)
    return Handle(operation, _in_place(tensors, usable))


def _first(handle: Handle) -> Handle:
    """Converts the handle of a list of one tensor to a handle of the tensor."""
    handle._finish = _only(handle._finish)
    return handle


def allreduce_async(tensor: torch.Tensor, average: Optional[bool] = None, name: Optional[str] = None,
                    op: Optional[int] = None, prescale_factor: float = 1.0, postscale_factor: float = 1.0,
                    process_set: ProcessSet = global_process_set, waits: bool = False) -> Handle:
    """Starts the reduction of a tensor over all ranks. The result is a new tensor.

    The tensor may be a number (bool, int, float or a scalar of numpy): the result is then a number of the same type.
    The average of ints is a float.

    Args:
        average: older form of `op`: True for Average, False for Sum.
        name: operations of different ranks that have the same name are one operation. A name can be used again after
            the program has waited for the result.
        op: Average (the default), Sum, Min, Max or Product. Averages of integer tensors are truncated.
        prescale_factor, postscale_factor: finite factors for the tensor and for the result, the same on all ranks.
            Integers are multiplied in float64 and truncated.
        waits: True if the caller calls synchronize() at once; then the operation is faster.
    """
    if is_plain_number(tensor):
        with submitting("allreduce", name, process_set):
            prescale, postscale = _factors(prescale_factor, postscale_factor)
            operation = require_set(process_set).agenda.allreduce(
                [tensor], None, engine_op(reduction(op, average)), name=name, prescale=prescale, postscale=postscale,
                waits=waits)
        return _first(Handle(operation, list))
    return _first(grouped_allreduce_async([tensor], average, name, op, prescale_factor, postscale_factor, process_set,
                                          waits))


def allreduce_async_(tensor: torch.Tensor, average: Optional[bool] = None, name: Optional[str] = None,
                     op: Optional[int] = None, prescale_factor: float = 1.0, postscale_factor: float = 1.0,
                     process_set: ProcessSet = global_process_set, waits: bool = False) -> Handle:
    """Like allreduce_async(), but in place."""
    return _first(grouped_allreduce_async_([tensor], average, name, op, prescale_factor, postscale_factor, process_set,
                                           waits))


def sparse_allreduce_async(tensor: torch.Tensor, name: Optional[str] = None, op: Optional[int] = None,
                           process_set: ProcessSet = global_process_set) -> Callable[[], torch.Tensor]:
    """Starts the reduction of a sparse tensor. Returns a function that waits, and returns the sparse result."""
    with submitting("allgather", name and f"sparse {name}", process_set):
        op = reduction(op, refused=(Min, Max, Product), of="a sparse tensor")
        if not isinstance(tensor, torch.Tensor) or not tensor.is_sparse:
            _check(tensor)
            raise ValueError("the tensor is not sparse: use allreduce_async(), or to_sparse()")
        indices, values = tensor._indices().t().contiguous(), tensor._values()
    handle = grouped_allgather_async([indices, values], name and f"sparse {name}", process_set)

    def wait() -> torch.Tensor:
        all_indices, all_values = handle.wait()
        if op == Average:
            all_values = all_values / process_set.size()
        return torch.sparse_coo_tensor(all_indices.t(), all_values, tensor.size())

    return wait


def grouped_allgather_async(tensors: Sequence[torch.Tensor], name: Optional[str] = None,
                            process_set: ProcessSet = global_process_set, waits: bool = False) -> Handle:
    """Starts to gather the tensors of a list. The list is one operation; its result is a list of new tensors."""
    with submitting("allgather", name, process_set):
        usable = [_usable(tensor) for tensor in tensors]
        operation = require_set(process_set).agenda.allgather(usable, name=name, waits=waits)
    return Handle(operation, _on_device_of(tensors))


def allgather_async(tensor: torch.Tensor, name: Optional[str] = None, process_set: ProcessSet = global_process_set,
                    waits: bool = False) -> Handle:
    """Starts to concatenate the tensors of all ranks; their first dimensions may differ.

    For numpy's numbers the result is an array of numpy, for other numbers a list.
    """
    if is_plain_number(tensor):
        return _first(Handle(require_set(process_set).agenda.allgather([tensor], name=name, waits=waits), list))
    return _first(grouped_allgather_async([tensor], name, process_set, waits))


def broadcast_async_(tensor: torch.Tensor, root_rank: int, name: Optional[str] = None,
                     process_set: ProcessSet = global_process_set, waits: bool = False) -> Handle:
    """Starts to copy the root's tensor into the tensor of every other rank. `root_rank` is a rank of the world."""
    with submitting("broadcast", name, process_set):
        gpu, usable, views = _all_usable([tensor])
        _require_places([tensor])
        agenda = require_set(process_set).agenda
        operation = agenda.broadcast(views, process_set.rank_of(root_rank), name=name, waits=waits, gpu=gpu)
    return Handle(operation, _only(_in_place([tensor], usable)))


def broadcast_async(tensor: torch.Tensor, root_rank: int, name: Optional[str] = None,
                    process_set: ProcessSet = global_process_set, waits: bool = False) -> Handle:
    """Starts to copy the root's tensor to a new tensor on every rank. If it is a number, the result is a number."""
    with submitting("broadcast", name, process_set):
        if is_plain_number(tensor):
            root, agenda = process_set.rank_of(root_rank), require_set(process_set).agenda
            return _first(Handle(agenda.broadcast([tensor], root, name=name, waits=waits), list))
        _check(tensor)
        new = tensor.detach().clone(memory_format=torch.contiguous_format)
        return broadcast_async_(new, root_rank, name, process_set, waits)


def alltoall_async(tensor: torch.Tensor, splits: Union[None, torch.Tensor, Sequence[int]] = None,
                   name: Optional[str] = None, process_set: ProcessSet = global_process_set,
                   waits: bool = False) -> Handle:
    """Starts to exchange rows: splits[r] rows go to rank r of the process set. The splits must add up to all rows.

    The result is the received rows. If splits are given, it is a pair: the rows, and the number of rows from each rank.
    """
    with submitting("alltoall", name, process_set):
        rows = None if splits is None else _split_list(splits)
        usable = _usable(tensor)
        operation = require_set(process_set).agenda.alltoall(usable, rows, name=name, waits=waits)
    device = tensor.device

    def finish(made: Any) -> Any:
        output, received = made
        if splits is None:
            return output.to(device)
        where = splits.device if isinstance(splits, torch.Tensor) else None
        return output.to(device), torch.tensor(received, dtype=torch.int32, device=where)

    return Handle(operation, finish)


def _split_list(splits: Union[torch.Tensor, Sequence[int]]) -> List[int]:
    given = torch.as_tensor(splits)
    if given.dtype not in (torch.int32, torch.int64):
        raise ValueError(f"splits must be a tensor of 32-bit integers, not of {given.dtype}")
    return given.reshape(-1).tolist()


def grouped_reducescatter_async(tensors: Sequence[torch.Tensor], name: Optional[str] = None,
                                op: Optional[int] = Average, process_set: ProcessSet = global_process_set,
                                prescale_factor: float = 1.0, postscale_factor: float = 1.0,
                                waits: bool = False) -> Handle:
    """Starts the reduction of a list. The result on each rank is a list of new tensors: its rows of each reduction."""
    with submitting("reduce_scatter", name, process_set):
        usable = [_usable(tensor) for tensor in tensors]
        if any(tensor.dim() == 0 for tensor in tensors):
            raise ValueError("reducescatter divides rows between the ranks: a tensor without dimensions has none")
        prescale, postscale = _factors(prescale_factor, postscale_factor)
        agenda, kind = require_set(process_set).agenda, engine_op(reduction(op, refused=(Min, Max, Product)))
        operation = agenda.reduce_scatter(usable, kind, name=name, prescale=prescale, postscale=postscale,
                                          waits=waits)
    return Handle(operation, _on_device_of(tensors))


def reducescatter_async(tensor: torch.Tensor, name: Optional[str] = None, op: Optional[int] = Average,
                        process_set: ProcessSet = global_process_set, prescale_factor: float = 1.0,
                        postscale_factor: float = 1.0, waits: bool = False) -> Handle:
    """Starts a tensor's reduction. Each rank gets its rows. If rows are left over, the first ranks get one more."""
    return _first(grouped_reducescatter_async([tensor], name, op, process_set, prescale_factor, postscale_factor, waits))
