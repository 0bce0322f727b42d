"""Sends parameters, and the state of optimizers, from one rank to every rank."""
from __future__ import annotations

import itertools
from typing import Any, Iterable, List, Mapping, Optional, Sequence, Tuple, Union

import torch

from ..horovod.objects import broadcast_object
from ..horovod.process_sets import ProcessSet, global_process_set, require_set
from ..horovod.refusals import on_all_ranks, submitting
from ..horovod.same_model import NAMES, find_difference
from . import ops


def broadcast_parameters(params: Union[Mapping[str, Any], Iterable[Tuple[str, Any]]], root_rank: int = 0,
                         process_set: ProcessSet = global_process_set) -> None:
    """Copies the root's parameters to the other ranks: model.state_dict() or model.named_parameters().

    Raises HorovodInternalError on all ranks, before anything is sent, if their parameters have different names.
    """
    with submitting("allgather", NAMES, process_set):
        tensors = [(name, each) for name, each in _named(params) if isinstance(each, torch.Tensor)]
    difference = find_difference(tensors, process_set)
    if difference is not None:
        raise difference
    _broadcast([(f"parameter {name}", tensor) for name, tensor in tensors], root_rank, process_set)


def _named(params: Any) -> List[Tuple[str, Any]]:
    if isinstance(params, torch.nn.Module):
        raise TypeError("params must be model.state_dict() or model.named_parameters(), not the model itself")
    named = list(params.items()) if isinstance(params, Mapping) else list(params)
    if any(not isinstance(one, tuple) or len(one) != 2 for one in named):
        raise ValueError("params must be a state_dict() or pairs of name and tensor, as named_parameters() gives")
    return named


def _broadcast(named: Sequence[Tuple[str, torch.Tensor]], root_rank: int, process_set: ProcessSet) -> None:
    """Copies the root's tensors, each under its name. If a rank refuses one tensor, all ranks refuse this tensor and
    all later ones."""
    handles: List[ops.Handle] = []
    try:
        for k, (name, tensor) in enumerate(named):
            later = (each for each, _ in itertools.islice(named, k + 1, None))
            with submitting("broadcast", name, process_set, later):
                handles.append(ops.broadcast_async_(tensor, root_rank, name, process_set))
    finally:
        _wait_for_all(handles)


def _wait_for_all(handles: Sequence[ops.Handle]) -> None:
    """Waits for all handles, even if one has failed, so that their names are free again. Raises the first error."""
    errors = []
    for handle in handles:
        try:
            handle.wait()
        except Exception as error:
            errors.append(error)
    if errors:
        raise errors[0]


class _Placeholder:
    """Replaces a tensor in a state that is sent as an object; the tensor is sent separately."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.shape, self.dtype, self.is_on_gpu = tuple(tensor.shape), tensor.dtype, tensor.is_cuda

    def make(self, gpu: Optional[torch.device]) -> torch.Tensor:
        """Makes a tensor in the same kind of memory as the root's tensor: on a GPU, or in host memory.

        `gpu`: this rank's GPU, which may differ from the root's.
        """
        return torch.empty(self.shape, dtype=self.dtype, device=gpu if self.is_on_gpu and gpu else "cpu")


def _gpu_of(optimizer: torch.optim.Optimizer) -> Optional[torch.device]:
    """The GPU of this rank's parameters, if they lie on one."""
    return next((each.device for group in optimizer.param_groups for each in group["params"] if each.is_cuda), None)


def _map(value: Any, kind: type, change: Any) -> Any:
    """Copies dicts, lists and tuples, and replaces every value of the type `kind`."""
    if isinstance(value, kind):
        return change(value)
    if isinstance(value, dict):
        return {key: _map(each, kind, change) for key, each in value.items()}
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return type(value)(_map(each, kind, change) for each in value)
    return value


def broadcast_optimizer_state(optimizer: torch.optim.Optimizer, root_rank: int, model: Any = None,
                              process_set: ProcessSet = global_process_set) -> None:
    """Copies the root's state and options of an optimizer to the other ranks.

    The other ranks get all entries that the root has, even if they had no entries before. `model` is accepted and not
    needed. Raises on all ranks if one rank's optimizer has different groups of parameters.
    """
    tensors: List[torch.Tensor] = []

    def take(given: Any) -> Any:
        tensors.append(given.make(_gpu_of(optimizer)) if isinstance(given, _Placeholder) else given)
        return _Placeholder(given) if isinstance(given, torch.Tensor) else tensors[-1]

    with submitting("allgather", None, process_set):  # for the broadcast of the object
        if not hasattr(optimizer, "state_dict"):
            raise TypeError(f"optimizer must be a torch optimizer, not {type(optimizer).__name__}")
        is_root = require_set(process_set).rank_of(root_rank) == process_set.rank()
        skeleton = _map(optimizer.state_dict(), torch.Tensor, take) if is_root else None
    skeleton = broadcast_object(skeleton, root_rank, process_set=process_set)
    state = skeleton if is_root else _map(skeleton, _Placeholder, take)
    _broadcast([(f"optimizer state {k}", tensor) for k, tensor in enumerate(tensors)], root_rank, process_set)
    on_all_ranks(lambda: None if is_root else optimizer.load_state_dict(state), process_set)
    _give_gradients(optimizer)


def _give_gradients(optimizer: torch.optim.Optimizer) -> None:
    """Sets missing gradients to zero: scripts expect them after a broadcast of the state."""
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            if parameter.requires_grad and parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
