"""Calls of Horovod's interface that fail before their operation is submitted."""
from __future__ import annotations

import contextlib
from typing import Iterator, Optional

from .process_sets import ProcessSet, require_set


@contextlib.contextmanager
def submitting(verb: str, name: Optional[str], process_set: ProcessSet) -> Iterator[None]:
    """A block that submits an operation: if it fails, the operation fails on the other ranks of the set too."""
    try:
        yield
    except Exception as error:
        with contextlib.suppress(TypeError, ValueError):  # without a set there are no other ranks
            require_set(process_set).agenda.refuse(verb, name, error)
        raise
