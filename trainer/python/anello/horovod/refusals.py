"""Calls of Horovod's interface that fail before their operation is submitted."""
from __future__ import annotations

import contextlib
from typing import Any, Iterable, Optional

from .process_sets import ProcessSet, require_set


class submitting:
    """A block that submits an operation: if it fails, the operation fails on the other ranks of the set too.

    A generator with contextlib would take ten times as long, in every call.

    Args:
        later: names of operations of this verb that this rank would have submitted next, and the other ranks submit.
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
