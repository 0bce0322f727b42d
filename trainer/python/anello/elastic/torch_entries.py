"""The entries of a State that are modules and optimizers of torch."""
from __future__ import annotations

import copy
from typing import Any, Dict, List, NamedTuple, Tuple

import torch

from ..view import kind_of
from .comparison import as_text
from .entries import FixedEntry, Memory, MemoryEntry


class ModuleEntry(MemoryEntry):
    """A module: its parameters, which are equal on all ranks, and its buffers.

    A forward pass may write buffers, such as the running statistics of a batch norm, and buffers may differ between
    ranks. So buffers are set back after a step that failed, and a synchronization sends them only to receivers.
    """

    def memory(self) -> List[Memory]:
        parameters = dict(self.value.named_parameters())
        for name, each in parameters.items():
            if isinstance(each, torch.nn.parameter.UninitializedTensorMixin):
                raise TypeError(f"its parameter {name} has no shape yet: run a forward pass first")
        self._find_buffers()
        return ([Memory(f"{self.name}.{name}", each) for name, each in parameters.items()]
                + [Memory(f"{self.name}.{name}", getattr(module, key), compared=False)
                   for name, (module, key) in self._buffers.items()])

    def _find_buffers(self) -> None:
        """Notes where the buffers are, because a search at each commit would take milliseconds."""
        parameters = {id(each) for each in self.value.parameters()}
        saved = {name for name, each in self.value.state_dict(keep_vars=True).items() if id(each) not in parameters}
        self._buffers: Dict[str, Tuple[Any, str]] = {}
        for path, module in self.value.named_modules():
            for key, _ in module.named_buffers(recurse=False):
                name = f"{path}.{key}" if path else key
                if name in saved:
                    self._buffers[name] = module, key
        for name in sorted(saved - set(self._buffers)):
            raise TypeError(f"its {name} is neither a parameter nor a buffer: keep it as an attribute of the state")

    def keep(self) -> None:
        self._kept = {name: getattr(module, key).detach().clone() for name, (module, key) in self._buffers.items()}

    def set_back(self) -> None:
        for name, (module, key) in self._buffers.items():
            getattr(module, key).detach().copy_(self._kept[name])


class _Shape(NamedTuple):
    """A tensor in a structure."""

    dtype: torch.dtype
    shape: Tuple[int, ...]
    is_on_gpu: bool


class OptimizerEntry(FixedEntry):
    """An optimizer: the tensors that it makes in its first step, and the settings of its groups.

    A schedule may change the settings between two commits, so they are set back after a step that failed.
    """

    holds_memory = True

    def _parameters(self) -> List[Any]:
        return [each for group in self.value.param_groups for each in group["params"]]

    def manifest(self) -> List[str]:
        groups = ", ".join(str(len(group["params"])) for group in self.value.param_groups)
        return [f"{self.name}: {kind_of(self.value)} of groups of {groups} parameters"]

    def _settings(self) -> List[Dict[str, Any]]:
        return [{key: each for key, each in group.items() if key != "params"} for group in self.value.param_groups]

    def _states(self) -> List[Any]:
        return [self.value.state.get(each) for each in self._parameters()]

    def structure(self) -> Any:
        return self._settings(), _shapes_of(self._states())

    def adopt(self, structure: Any) -> None:
        settings, states = structure
        self._set(settings)
        for parameter, own, given in zip(self._parameters(), self._states(), states):
            if given is None:
                self.value.state.pop(parameter, None)
            else:
                self.value.state[parameter] = _filled(given, own, parameter.device)

    def _set(self, settings: List[Dict[str, Any]]) -> None:
        for group, given in zip(self.value.param_groups, settings):
            group.update(given)

    def memory(self) -> List[Memory]:
        found: List[Memory] = []
        _collect(f"{self.name}.state", self._states(), found)
        return found

    def texts(self) -> Dict[str, bytes]:
        return {self.name: as_text(_compared(self.structure()))}

    def keep(self) -> None:
        self._kept = copy.deepcopy(self._settings())

    def set_back(self) -> None:
        self._set(copy.deepcopy(self._kept))


def _mapped(value: Any, change: Any) -> Any:
    """A copy of a value in which the tensors of its dicts, lists and tuples are replaced by change(tensor)."""
    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, dict):
        return {key: _mapped(each, change) for key, each in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_mapped(each, change) for each in value)
    return value


def _shapes_of(value: Any) -> Any:
    return _mapped(value, lambda tensor: _Shape(tensor.dtype, tuple(tensor.shape), not tensor.is_cpu))


def _compared(structure: Any) -> Any:
    """The structure without the kinds of devices, because these may differ between ranks."""
    settings, states = structure

    def plain(value: Any) -> Any:
        if isinstance(value, _Shape):
            return str(value.dtype), value.shape
        if isinstance(value, dict):
            return {key: plain(each) for key, each in value.items()}
        return [plain(each) for each in value] if type(value) in (list, tuple) else value

    return settings, plain(states)


def _filled(given: Any, own: Any, device: Any) -> Any:
    """A value with the shapes of `given`. Tensors of `own` that have the right shape are used again."""
    if isinstance(given, _Shape):
        if isinstance(own, torch.Tensor) and _shapes_of(own) == given:
            return own
        return torch.empty(given.shape, dtype=given.dtype, device=device if given.is_on_gpu else "cpu")
    if isinstance(given, dict):
        its = own if isinstance(own, dict) else {}
        return {key: _filled(each, its.get(key), device) for key, each in given.items()}
    if type(given) in (list, tuple):
        old = dict(enumerate(own)) if isinstance(own, (list, tuple)) else {}
        return type(given)(_filled(each, old.get(index), device) for index, each in enumerate(given))
    return given


def _collect(name: str, value: Any, found: List[Memory]) -> None:
    if isinstance(value, torch.Tensor):
        found.append(Memory(name, value))
    elif isinstance(value, dict):
        for key, each in value.items():
            _collect(f"{name}.{key}", each, found)
    elif isinstance(value, (list, tuple)):
        for index, each in enumerate(value):
            _collect(f"{name}[{index}]", each, found)


def kind_of_entry(value: Any) -> Any:
    """The class of the entry for a module or an optimizer."""
    return ModuleEntry if isinstance(value, torch.nn.Module) else OptimizerEntry
