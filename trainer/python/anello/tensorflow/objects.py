"""Sends Python objects of one rank, or of all ranks, to every rank. These functions need no session."""
from __future__ import annotations

from typing import Any, Callable, List, Optional

from ..horovod import objects
from ..horovod.process_sets import ProcessSet, global_process_set


def broadcast_object(obj: Any, root_rank: int = 0, session: Any = None, name: Optional[str] = None,
                     process_set: ProcessSet = global_process_set) -> Any:
    """The root's object on every rank. The object is pickled: call this only between ranks that trust each other."""
    return objects.broadcast_object(obj, root_rank, name, process_set)


def broadcast_object_fn(root_rank: int = 0, session: Any = None, name: Optional[str] = None,
                        process_set: ProcessSet = global_process_set) -> Callable[[Any], Any]:
    """A function that does the same as broadcast_object() from this root."""
    return lambda obj: objects.broadcast_object(obj, root_rank, name, process_set)


def allgather_object(obj: Any, session: Any = None, name: Optional[str] = None,
                     process_set: ProcessSet = global_process_set) -> List[Any]:
    """The objects of all ranks, in rank order. The objects are pickled, as in broadcast_object()."""
    return objects.allgather_object(obj, name, process_set)
