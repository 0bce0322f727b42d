"""Gives the entries of a State to the ranks that lack them, by collectives of the new world."""
from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Sequence

from ..errors import Error
from ..group import Group
from ..tensors import is_torch, view
from .entries import Entry, Memory
from .job import Change, Job, hash_of


def synchronize(job: Job, entries: Sequence[Entry], verify: bool = True) -> None:
    """Sends the entries of the newest revision to the ranks that lack it, and compares the entries of all ranks. All
    ranks call; blocks.

    Without `verify`, the sources need not have equal entries: the first source sends everything.

    Raises the errors of Job.begin_synchronization() and Job.end_synchronization().
    """
    lines = [line for each in entries for line in each.manifest()]
    change = job.begin_synchronization("\n".join(lines if verify else [*lines, "the states are not compared"]))
    group = _first_source_and_receivers(job, change)  # lives until all ranks have compared their entries
    if group is not None:
        structures = _broadcast_structures(group, entries)
        if group.rank != 0:
            for entry, structure in zip(entries, structures):
                entry.adopt(structure)
    memory = _memory_of(entries)
    equal = [each.tensor for each in memory if each.compared and verify]
    if change.receivers:
        _copy(equal, change, job.deliver)
    if group is not None:
        own = [each.tensor for each in memory if not (each.compared and verify)]
        _copy(own, change, lambda some: _broadcast(group, some))
    job.end_synchronization(_hashes_of(entries, memory) if verify else {}, sum(_bytes_of(each.tensor) for each in memory))


def _broadcast_structures(group: Group, entries: Sequence[Entry]) -> List[Any]:
    try:
        return group.broadcast_object([each.structure() for each in entries] if group.rank == 0 else None)
    except Error:
        raise
    except Exception:
        for each in entries:
            each.require_sendable()  # raises with the entry's name
        raise


def compare(job: Job, entries: Sequence[Entry]) -> None:
    """Compares the entries of all ranks after the same commit. All ranks call; blocks. Raises as Job.compare()."""
    job.compare(_hashes_of(entries, _memory_of(entries)))


def _first_source_and_receivers(job: Job, change: Change) -> Optional[Group]:
    """The group in which the first source sends the parts that may differ between sources."""
    members = [change.sources[0]] + change.receivers
    return job.world.group(members) if change.receivers and change.rank in members else None


def _memory_of(entries: Sequence[Entry]) -> List[Memory]:
    """The tensors of all entries, sorted by name, because two ranks may have made the same tensors in different
    orders."""
    return sorted((memory for each in entries for memory in each.memory()), key=lambda memory: memory.name)


def _in_host_memory(tensor: Any) -> Any:
    """The tensor, detached from torch's graph. The result is a copy if the tensor has gaps or is not in host memory."""
    if not is_torch(tensor):
        return tensor
    return tensor.detach().cpu().contiguous()


def _copy(tensors: Sequence[Any], change: Change, send: Callable[[List[Any]], Any]) -> None:
    """Calls send() with the tensors, or with copies in host memory. Receivers then copy these back to the tensors."""
    sent = [_in_host_memory(each) for each in tensors]
    send(sent)
    for tensor, its in zip(tensors, sent) if change.rank in change.receivers else ():
        if is_torch(tensor) and tensor.data_ptr() != its.data_ptr():
            tensor.detach().copy_(its)


def _broadcast(group: Group, tensors: Sequence[Any]) -> None:
    """Sends the tensors of the group's first rank. All tensors of one type are one operation."""
    by_type: Dict[int, List[Any]] = {}
    for each in tensors:
        by_type.setdefault(view(each).dtype, []).append(each)
    for some in by_type.values():
        group.broadcast(some, 0, name="the state")


def _bytes_of(tensor: Any) -> int:
    return tensor.numel() * tensor.element_size() if is_torch(tensor) else memoryview(tensor).nbytes


def _hashes_of(entries: Sequence[Entry], memory: Sequence[Memory]) -> Dict[str, bytes]:
    hashes = {each.name: hash_of(_in_host_memory(each.tensor)) for each in memory if each.compared}
    for entry in entries:
        hashes.update({name: hash_of(bytearray(text)) for name, text in entry.texts_named().items()})
    return hashes
