"""Elastic states with models, optimizers and samplers of torch."""
from __future__ import annotations

import copy as copying
from typing import Any, Dict, List, Optional, Tuple, Type

import torch

from ...elastic import hash_of
from ...horovod import elastic
from ...horovod.elastic import StateHandler
from ...horovod.refusals import on_all_ranks
from ...horovod.source import source_rank
from ..functions import broadcast_optimizer_state, broadcast_parameters
from ..optimizer import Distributed
from .sampler import ElasticSampler


class _TensorsHandler(StateHandler):
    """A handler of an object that has tensors."""

    def size(self) -> int:
        return sum(each.numel() * each.element_size() for each in self._tensors().values())

    def hashes(self) -> Dict[str, bytes]:
        return {name: hash_of(each.detach().cpu().contiguous()) for name, each in self._tensors().items()
                if each.layout == torch.strided}

    def _tensors(self) -> Dict[str, torch.Tensor]:
        raise NotImplementedError


class ModelStateHandler(_TensorsHandler):
    """A handler of a model. If `copies` is false, only the model's buffers are copied, which a forward pass may
    change."""

    copies = True

    def save(self) -> None:
        state = self.value.state_dict()
        kept = state if self.copies else {name: state[name] for name, _ in self.value.named_buffers() if name in state}
        self._saved = copying.deepcopy(kept)

    def restore(self) -> None:
        self.value.load_state_dict(self._saved, strict=self.copies)

    def sync(self) -> None:
        broadcast_parameters(on_all_ranks(self.value.state_dict), source_rank())

    def describe(self) -> Dict[str, str]:
        return {name: _kind(each) for name, each in self._tensors().items()}

    def _tensors(self) -> Dict[str, torch.Tensor]:
        return {f".{name}": each for name, each in self.value.state_dict().items() if isinstance(each, torch.Tensor)}


class OptimizerStateHandler(_TensorsHandler):
    """A handler of an optimizer. If `copies` is false, only the options of the optimizer's groups are copied."""

    copies = True

    def save(self) -> None:
        self._steps = self._steps_begun()
        self._saved = copying.deepcopy(self.value.state_dict()) if self.copies else _options(self.value.param_groups)
        self._lost = {name: each.clone() for name, each in _residuals(self.value).items()}

    def restore(self) -> None:
        if self.copies:
            self.value.load_state_dict(self._saved)
        else:
            for group, options in zip(self.value.param_groups, self._saved):
                group.update(copying.deepcopy(options))
        for name, each in _residuals(self.value).items():
            each.copy_(self._lost[name]) if name in self._lost else each.zero_()

    def sync(self) -> None:
        broadcast_optimizer_state(self.value, source_rank())

    def describe(self) -> Dict[str, str]:
        return {"": type(self.value).__name__,
                **{f", group {k}": ", ".join(_kind(each) for each in group["params"])
                   for k, group in enumerate(self.value.param_groups)}}

    def _tensors(self) -> Dict[str, torch.Tensor]:
        state = self.value.state_dict()["state"]
        return {f", {name} of parameter {k}": each for k in sorted(state) for name, each in state[k].items()
                if isinstance(each, torch.Tensor)}

    def is_torn(self) -> bool:
        """True if a step that was not committed may have changed parameters, and no copy of them exists."""
        return not self.copies and self._steps != self._steps_begun()

    def _steps_begun(self) -> int:
        return getattr(self.value, "steps_begun", 0)


class SamplerStateHandler(elastic.ObjectHandler):
    """An ElasticSampler."""

    def describe(self) -> Dict[str, str]:
        return {"": f"sampler of {len(self.value.dataset)} indices"}


_handler_registry: List[Tuple[type, Type[Any]]] = [
    (torch.nn.Module, ModelStateHandler),
    (torch.optim.Optimizer, OptimizerStateHandler),
    (ElasticSampler, SamplerStateHandler),
]


def get_handler_registry() -> List[Tuple[type, Type[Any]]]:
    """The list of pairs (type, class of its handler), which may be changed. The first type that fits a value is
    used."""
    return _handler_registry


def set_handler_registry(registry: List[Tuple[type, Type[Any]]]) -> None:
    """Replaces the list of get_handler_registry()."""
    global _handler_registry
    _handler_registry = registry


class State(elastic.State):
    """The keyword arguments become attributes. All ranks commit, restore and synchronize their values."""

    def _handler_of(self, value: Any) -> Optional[StateHandler]:
        for kind, handler in _handler_registry:
            if isinstance(value, kind):
                made: StateHandler = handler(value)
                return made
        return super()._handler_of(value)

    def reset(self) -> None:
        """Divides the indices of samplers between the ranks of the new world."""
        for each in self._handlers.values():
            if isinstance(each.value, ElasticSampler):
                each.value.reset()


ObjectState = State


class TorchState(State):
    """The state of a training: a model, an optimizer, samplers and plain values, as keyword arguments.

    Args:
        copy: False: commit() copies no parameters and no state of the optimizer, because only step() writes these,
            after all gradients have arrived. Commit after each step: if a rank fails between step() and commit(), no
            rank has the state of a commit, and the job ends. Every optimizer must be a DistributedOptimizer. Horovod
            does not have it.
    """

    def __init__(self, model: Any = None, optimizer: Any = None, copy: bool = True, **values: Any) -> None:
        self._copies = copy
        super().__init__(model=model, optimizer=optimizer, **values)

    def _handler_of(self, value: Any) -> Optional[StateHandler]:
        handler = super()._handler_of(value)
        if not self._copies and isinstance(handler, (ModelStateHandler, OptimizerStateHandler)):
            if isinstance(value, torch.optim.Optimizer) and not isinstance(value, Distributed):
                raise ValueError("copy=False is for an optimizer made by hvd.DistributedOptimizer()")
            handler.copies = False
        return handler

    def _is_torn(self) -> bool:
        return any(each.is_torn() for each in self._handlers.values() if isinstance(each, OptimizerStateHandler))


def _kind(tensor: torch.Tensor) -> str:
    return f"{str(tensor.dtype).replace('torch.', '')} {tuple(tensor.shape)}"


def _options(groups: Any) -> Any:
    return copying.deepcopy([{key: value for key, value in group.items() if key != "params"} for group in groups])


def _residuals(optimizer: Any) -> Dict[str, torch.Tensor]:
    return optimizer.residuals() if isinstance(optimizer, Distributed) else {}
