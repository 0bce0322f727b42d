"""The parameters that an optimizer trains, their names, and a call for each new gradient."""
from __future__ import annotations

import itertools
import operator
import weakref
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple

import torch

Groups = Sequence[Mapping[str, Any]]


class Trained:
    """The parameters of an optimizer that need a gradient, or have needed one before.

    The program may change them between steps: unfreeze a layer, add a group, replace a parameter.

    Attributes:
        names: by parameter, in the order of the optimizer.
    """

    def __init__(self, named: Optional[Dict[Any, str]], on_gradient: Callable[[torch.nn.Parameter], None]) -> None:
        """`on_gradient`: a method that is called when autograd has added to the gradient of a parameter."""
        self._named = named or {}
        self._on_gradient = weakref.WeakMethod(on_gradient)
        self._all: List[torch.nn.Parameter] = []
        self._kinds: List[Any] = []
        self._frozen: List[torch.nn.Parameter] = []
        self._hooks: Dict[Any, Any] = {}
        self.names: Dict[Any, str] = {}

    def changed(self, groups: Groups) -> bool:
        """True if the optimizer has other parameters than at the last update(), or if a parameter has another type or
        device."""
        now = [each for group in groups for each in group["params"]]
        return (len(now) != len(self._all) or not all(map(operator.is_, now, self._all)) or _kinds(now) != self._kinds
                or any(each.requires_grad for each in self._frozen))

    def update(self, groups: Groups) -> bool:
        """Follows changes of the optimizer. Returns True if the parameters that it trains, their types or their names
        have changed."""
        if not self.changed(groups):
            return False
        names = self._names_of(groups)
        before, kinds, self._all = self.names, self._kinds, list(names)
        self._kinds = _kinds(self._all)
        self.names = {each: name for each, name in names.items() if each.requires_grad or each in before}
        self._frozen = [each for each in names if each not in self.names]
        for each in [each for each in self._hooks if each not in self.names]:
            self._hooks.pop(each).remove()
        for each in self.names:
            self._hooks[each] = self._hooks.get(each) or _Hook(each, self._on_gradient)
        return (list(map(id, before)) != list(map(id, self.names)) or kinds != self._kinds
                or list(before.values()) != list(self.names.values()))

    def not_followed(self, groups: Groups) -> List[str]:
        """The names of parameters that have a gradient, but did not belong to the optimizer at the last update()."""
        if not self.changed(groups):
            return []
        return [name for each, name in self._names_of(groups).items()
                if each.requires_grad and each.grad is not None and each not in self.names]

    def has_only_trained(self) -> bool:
        """False if some parameters of the optimizer are frozen, even if they were trained before."""
        return not self._frozen and all(each.requires_grad for each in self.names)

    def _names_of(self, groups: Groups) -> Dict[Any, str]:
        return {each: self._named.get(each, f"parameter {k} of group {g}")
                for g, group in enumerate(groups) for k, each in enumerate(group["params"])}


def _kinds(parameters: Sequence[torch.nn.Parameter]) -> List[Any]:
    return [(each.dtype, each.device) for each in parameters]


class _Hook:
    """Calls a method when autograd has added to a parameter's gradient.

    Holds the parameter and the method only by weak references.
    """

    def __init__(self, parameter: torch.nn.Parameter, method: Any) -> None:
        its = weakref.ref(parameter)

        def call(*_: Any) -> None:
            alive, owner = method(), its()
            if alive is not None and owner is not None:
                alive(owner)

        if hasattr(parameter, "register_post_accumulate_grad_hook"):  # available from torch 2.1 on
            self._handle = parameter.register_post_accumulate_grad_hook(call)
        else:
            with torch.inference_mode(False), torch.enable_grad():  # in a backward pass, torch would record no graph
                self._accumulate = parameter.expand_as(parameter).grad_fn.next_functions[0][0]  # keeps the hook
            self._handle = self._accumulate.register_hook(call)

    def remove(self) -> None:
        self._handle.remove()


def named_by_program(optimizer: torch.optim.Optimizer,
                     named_parameters: Optional[Iterable[Tuple[str, torch.nn.Parameter]]]) -> Optional[Dict[Any, str]]:
    """The names that the program gives to parameters. There may be names for more parameters than the optimizer has."""
    if named_parameters is None:
        return None
    named = list(named_parameters)
    if any(not isinstance(one, tuple) or len(one) != 2 for one in named):
        raise ValueError("named_parameters must be pairs of name and parameter, as model.named_parameters() gives")
    names = [name for name, _ in named]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"named_parameters has these names twice: {', '.join(twice)}")
    of = {each: name for name, each in named}
    if any(each not in of for each in itertools.chain(*[group["params"] for group in optimizer.param_groups])):
        raise ValueError("named_parameters lacks some of the optimizer's parameters: name all of them, or none")
    return of
