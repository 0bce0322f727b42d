"""Calls of Horovod's interface that fail before their operation is submitted."""
from __future__ import annotations

import contextlib
from typing import Any, Callable, Iterable, Optional, TypeVar

from . import basics
from .process_sets import ProcessSet, global_process_set, require_set

Result = TypeVar("Result")


class submitting:
    """A block that submits an operation. If the block fails, the operation fails on the other ranks of the set too.

    It is a class, because a generator with contextlib would take ten times as long in every call.

    Args:
        later: names of further operations of this verb that this rank would have submitted; they fail on the other
            ranks too.
    """

    def __init__(self, verb: str, name: Optional[str], process_set: ProcessSet,
                 later: Iterable[Optional[str]] = ()) -> None:
        self._call = verb, name, process_set, later

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if not isinstance(error, Exception):
            return
        verb, name, process_set, later = self._call
        with contextlib.suppress(TypeError, ValueError):  # without a set there are no other ranks
            agenda = require_set(process_set).agenda
            agenda.refuse(verb, name, error)
            for each in later:
                agenda.refuse(verb, each, RuntimeError(f"an operation before it was refused: {error}"))


def on_all_ranks(part: Callable[[], Result], process_set: ProcessSet = global_process_set,
                 name: Optional[str] = "part of the program on all ranks") -> Result:
    """Returns the result of `part`. All ranks of a set call it, and it may raise on only some of them.

    If `part` raises on one rank, the other ranks raise too, with the reason of that rank. So they do not wait for the
    operation that follows. If there is a world, this function is a collective, and blocks. Threads that call it at the
    same time need different names.
    """
    if not basics.is_initialized():
        return part()
    with submitting("allgather", name, process_set):
        result = part()
    process_set.agenda.allgather_bytes(b"", name=name, waits=True).wait()
    return result
