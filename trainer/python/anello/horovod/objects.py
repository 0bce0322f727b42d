"""Sends Python objects from one rank, or from all ranks, to every rank."""
from __future__ import annotations

import io
import pickle
from typing import Any, Callable, List, Optional

from .process_sets import ProcessSet, global_process_set, require_set
from .refusals import on_all_ranks, submitting

try:
    import cloudpickle as _pickler  # also handles lambdas and local classes
except ImportError:
    _pickler = pickle


def _pickled(obj: Any) -> bytes:
    buffer = io.BytesIO()
    try:
        _pickler.dump(obj, buffer)
    except (pickle.PicklingError, TypeError, AttributeError) as error:
        where = _unpicklable_entry(obj)
        raise type(error)(f"the object{where} cannot be sent to other ranks: {error}") from error
    return buffer.getvalue()


def _unpicklable_entry(obj: Any) -> str:
    """The path to the first entry that cannot be pickled, as Python text: "['model']['hook']"."""
    entries = obj.items() if type(obj) is dict else enumerate(obj) if type(obj) in (list, tuple) else ()
    for key, value in entries:
        try:
            _pickler.dump(value, io.BytesIO())
        except (pickle.PicklingError, TypeError, AttributeError):
            return f"[{key!r}]{_unpicklable_entry(value)}"
    return ""


def _unpickled(load: Callable[[], Any], name: Optional[str], process_set: ProcessSet) -> Any:
    """The object that `load` returns on this rank. If the object's class is missing on only one rank, all ranks
    raise."""
    return on_all_ranks(load, process_set, name and f"{name}, unpickled")


def broadcast_object(obj: Any, root_rank: int = 0, name: Optional[str] = None,
                     process_set: ProcessSet = global_process_set) -> Any:
    """The root's object on every rank. The object is pickled: call this only between ranks that trust each other."""
    name = name and f"object {name}"
    with submitting("allgather", name, process_set):
        root = require_set(process_set).rank_of(root_rank)
        is_root = root == process_set.rank()
        mine = _pickled(obj) if is_root else b""
    sent = process_set.agenda.allgather_bytes(mine, name=name, waits=True).wait()
    return _unpickled(lambda: obj if is_root else pickle.loads(sent[root]), name, process_set)


def allgather_object(obj: Any, name: Optional[str] = None, process_set: ProcessSet = global_process_set) -> List[Any]:
    """The objects of all ranks, in rank order. The objects are pickled, as in broadcast_object()."""
    name = name and f"objects {name}"
    with submitting("allgather", name, process_set):
        agenda, mine = require_set(process_set).agenda, _pickled(obj)
    parts = agenda.allgather_bytes(mine, name=name, waits=True).wait()
    return _unpickled(lambda: [pickle.loads(part) for part in parts], name, process_set)
