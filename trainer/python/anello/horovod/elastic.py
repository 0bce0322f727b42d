"""Horovod's elastic interface for worlds of a fixed size.

A state can be committed, restored and made equal on all ranks. If a rank fails the world ends, and `anello run
--restarts N` starts the script again. A script that continues then loads its own checkpoint (`anello.save_on_rank_0`
writes it).
"""
from __future__ import annotations

import copy
import functools
from typing import TYPE_CHECKING, Any, Callable, List

from .objects import broadcast_object
from .refusals import on_all_ranks


class State:
    """Values that all ranks commit, restore and synchronize: the keyword arguments, as attributes.

    Args:
        bcast_object: gives all ranks an object of rank 0.
        get_rank: accepted, but not used, because the hosts are fixed.
    """

    if TYPE_CHECKING:
        def __getattr__(self, name: str) -> Any: ...
        def __setattr__(self, name: str, value: Any) -> None: ...

    def __init__(self, bcast_object: Callable[[Any], Any] = broadcast_object, get_rank: Any = None,
                 **values: Any) -> None:
        self._broadcast_object = bcast_object
        self._names = list(values)
        self._callbacks: List[Callable[[], None]] = []
        for name, value in values.items():
            setattr(self, name, value)
        self.save()

    def register_reset_callbacks(self, callbacks: List[Callable[[], None]]) -> None:
        """Adds functions that are called when the world has changed."""
        self._callbacks.extend(callbacks)

    def on_reset(self) -> None:
        """Calls the functions of register_reset_callbacks()."""
        for each in self._callbacks:
            each()

    def commit(self) -> None:
        """Keeps a copy of the present values."""
        self.save()
        self.check_host_updates()

    def check_host_updates(self) -> None:
        """Does nothing: the hosts of a world are fixed."""

    def save(self) -> None:
        """Keeps a copy of the present values."""
        self._saved = {name: _saved(getattr(self, name)) for name in self._names}

    def restore(self) -> None:
        """Restores the values of the last copy."""
        for name in self._names:
            setattr(self, name, _restored(getattr(self, name), self._saved[name]))

    def sync(self) -> None:
        """Gives all ranks the values of rank 0, and keeps a copy. If one rank cannot set a value, all ranks raise."""
        for name in self._names:
            setattr(self, name, self._synchronized(getattr(self, name)))
        on_all_ranks(self.save)

    def _synchronized(self, value: Any) -> Any:
        """The value of rank 0. Frameworks override it for their models and optimizers."""
        if not _has_state(value):
            return self._broadcast_object(value)
        state = self._broadcast_object(on_all_ranks(value.state_dict))
        on_all_ranks(lambda: value.load_state_dict(state))
        return value


def _has_state(value: Any) -> bool:
    return hasattr(value, "state_dict") and hasattr(value, "load_state_dict")


def _saved(value: Any) -> Any:
    return copy.deepcopy(value.state_dict() if _has_state(value) else value)


def _restored(value: Any, saved: Any) -> Any:
    if not _has_state(value):
        return copy.deepcopy(saved)
    value.load_state_dict(copy.deepcopy(saved))
    return value


def run(train: Callable[..., Any]) -> Callable[..., Any]:
    """Decorates a function of a State: all ranks begin with the values of rank 0."""

    @functools.wraps(train)
    def wrapper(state: State, *arguments: Any, **options: Any) -> Any:
        state.sync()
        return train(state, *arguments, **options)

    return wrapper
