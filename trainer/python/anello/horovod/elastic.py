"""Horovod's elastic interface: a state that is committed, and a function that goes on when the ranks of the job change.

Without an elastic job the ranks are fixed. If a rank fails, the world ends, and `anello run --restarts N` starts the
script again, which then loads its own checkpoint (`anello.save_on_rank_0` writes it).
"""
from __future__ import annotations

import copy
import queue
import time
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterable, List, Optional

from . import basics
from .objects import broadcast_object
from .refusals import on_all_ranks
from .source import source_rank

_ADDED_AND_REMOVED = 3  # Horovod's HostUpdateResult


def from_source(value: Any) -> Any:
    """The value of the rank that has the newest state, on all ranks."""
    return broadcast_object(value, source_rank())


class StateHandler:
    """Saves, restores and synchronizes one value of a state. Programs derive handlers for their own types."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def save(self) -> None:
        """Keeps a copy of the value."""
        raise NotImplementedError

    def restore(self) -> None:
        """Restores the value of the last copy."""
        raise NotImplementedError

    def sync(self) -> None:
        """Gives all ranks the value of source_rank(). All ranks call."""
        raise NotImplementedError

    def set_value(self, value: Any) -> None:
        """Called when the program gives the state another object."""
        self.value = value
        self.save()

    def describe(self) -> Dict[str, str]:
        """Lines for the comparison of the ranks' states: parts of the value, with their types and shapes."""
        return {"": type(self.value).__name__}

    def size(self) -> int:
        """The number of bytes that a synchronization sends, for messages."""
        return 0

    def hashes(self) -> Dict[str, bytes]:
        """Hashes (16 bytes each) of the parts that are equal on all ranks after a synchronization."""
        return {}


class ObjectHandler(StateHandler):
    """For objects with state_dict() and load_state_dict()."""

    def __init__(self, value: Any, broadcast: Callable[[Any], Any] = from_source) -> None:
        super().__init__(value)
        self._broadcast = broadcast

    def save(self) -> None:
        self._saved = copy.deepcopy(self.value.state_dict())

    def restore(self) -> None:
        self.value.load_state_dict(copy.deepcopy(self._saved))

    def sync(self) -> None:
        state = self._broadcast(on_all_ranks(self.value.state_dict))
        on_all_ranks(lambda: self.value.load_state_dict(state))


class _HostMessages(queue.Queue):  # type: ignore[type-arg]
    """A queue of messages about planned changes. Scripts check whether the queue is empty."""

    def __init__(self, look: Callable[[], None]) -> None:
        super().__init__()
        self._look = look

    def empty(self) -> bool:
        """False if a change is planned, and the script has not taken the message about the change from the queue
        yet."""
        self._look()
        return super().empty()


class State:
    """The keyword arguments become attributes. All ranks commit, restore and synchronize their values.

    Args:
        bcast_object: gives all ranks an object of the rank that has the newest state. It is called with a dict of the
            values, and with the result of an object's state_dict().
        get_rank: accepted, but not used.
    """

    _handlers: Dict[str, StateHandler] = {}
    _names: List[str] = []
    if TYPE_CHECKING:
        def __getattr__(self, name: str) -> Any: ...

    def __init__(self, bcast_object: Callable[[Any], Any] = from_source, get_rank: Any = None, **values: Any) -> None:
        # Scripts give hvd.broadcast_object, which would broadcast from rank 0.
        is_ours = getattr(bcast_object, "__name__", "") == "broadcast_object"
        self._broadcast_object = from_source if is_ours else bcast_object
        self._reset_callbacks: List[Callable[[], None]] = []
        self._host_messages: Any = _HostMessages(self._look_for_change)
        self._is_change_noted = False
        self._last_updated_timestamp = 0
        handlers = {name: self._handler_of(value) for name, value in values.items()}
        self._handlers = {name: each for name, each in handlers.items() if each is not None}
        self._names = [name for name in values if name not in self._handlers]
        for name, value in values.items():
            object.__setattr__(self, name, value)
        State.save(self)  # the attributes of a derived class may not be there yet

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self._handlers:
            self._handlers[name].set_value(value)
        object.__setattr__(self, name, value)

    def _handler_of(self, value: Any) -> Optional[StateHandler]:
        has_state = hasattr(value, "state_dict") and hasattr(value, "load_state_dict")
        return ObjectHandler(value, self._broadcast_object) if has_state else None

    def _describing_handlers(self) -> Dict[str, StateHandler]:
        """The handlers that can describe their values. A program's own handler may not derive from StateHandler, and is
        left out."""
        return {name: each for name, each in self._handlers.items() if isinstance(each, StateHandler)}

    def _sent_bytes(self) -> int:
        """The number of bytes that a synchronization sends, for messages."""
        return sum(each.size() for each in self._describing_handlers().values())

    def register_reset_callbacks(self, callbacks: Iterable[Callable[[], None]]) -> None:
        """Adds functions that are called in each new world, before the state is synchronized."""
        self._reset_callbacks.extend(callbacks)

    def on_reset(self) -> None:
        """Called in each new world: resets the state, then calls the functions of register_reset_callbacks()."""
        self._host_messages = _HostMessages(self._look_for_change)
        self._is_change_noted = False
        self.reset()
        for each in self._reset_callbacks:
            each()

    def reset(self) -> None:
        """For derived classes: follows the ranks of a new world, before the state is synchronized."""

    def on_hosts_updated(self, timestamp: Any, update_res: Any) -> None:
        """Called once on each rank when the end of its world is planned, because processes join or leave.

        It is called in the thread that calls commit() or looks at the messages. The job does not depend on this call.

        Args:
            timestamp: seconds since 1970.
            update_res: Horovod's number for hosts that were added and removed.
        """
        self._host_messages.put((timestamp, update_res))

    def _look_for_change(self) -> None:
        if not self._is_change_noted and basics.change_is_planned():
            self._is_change_noted = True
            self.on_hosts_updated(time.time(), _ADDED_AND_REMOVED)

    def commit(self) -> None:
        """Keeps a copy of the present values. All ranks commit after the same steps.

        Raises HostsUpdatedInterrupt if the world ends here because processes join or leave.
        """
        self.save()
        self._look_for_change()
        basics.commit()
        self.check_host_updates()

    def check_host_updates(self) -> None:
        """Does nothing, and sends nothing: a world that has to change ends in commit()."""

    def save(self) -> None:
        """Keeps a copy of the present values."""
        for each in self._handlers.values():
            each.save()
        self._saved = {name: copy.deepcopy(getattr(self, name)) for name in self._names}

    def restore(self) -> None:
        """Restores the values of the last copy."""
        for each in self._handlers.values():
            each.restore()
        for name, value in self._saved.items():
            object.__setattr__(self, name, copy.deepcopy(value))

    def _is_torn(self) -> bool:
        """True if values that are not copied were written after the last commit. Then restore() cannot restore these
        values."""
        return False

    def sync(self) -> None:
        """Gives all ranks the newest values, and keeps a copy. If one rank cannot set a value, all ranks raise.

        In hvd.elastic.run(), the newest values are those of the rank with the most commits, otherwise those of rank 0.
        """
        for each in self._handlers.values():
            each.sync()
        values = self._broadcast_object({name: getattr(self, name) for name in self._names})
        for name, value in values.items():
            object.__setattr__(self, name, value)
        on_all_ranks(self.save)
