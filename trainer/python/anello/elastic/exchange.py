"""Gives the entries of a State to the ranks that lack them, by collectives of the new world."""
from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence, Tuple

from ..group import Group
from ..tensors import is_torch, view
from .entries import Entry, Memory
from .job import Change, Job, hash_of


def synchronize(job: Job, entries: Sequence[Entry]) -> None:
    """Sends the entries of the newest revision to the ranks that lack it, and compares them. All ranks call; blocks.

    Raises the errors of Job.begin_synchronization() and Job.end_synchronization().
    """
    change = job.begin_synchronization("\n".join(line for each in entries for line in each.manifest()))
    group = _senders_and_receivers(job, change)
    if group is not None:
        structures = group.broadcast_object([each.structure() for each in entries] if group.rank == 0 else None)
        if group.rank != 0:
            for entry, structure in zip(entries, structures):
                entry.adopt(structure)
        _broadcast(group, _memory_of(entries))
    memory = _memory_of(entries)
    job.end_synchronization(_hashes_of(entries, memory), sum(_bytes_of(each.tensor) for each in memory))
    del group  # it lives until all ranks have compared their entries


def _senders_and_receivers(job: Job, change: Change) -> Optional[Group]:
    members = [change.sources[0]] + change.receivers
    return job.world.group(members) if change.receivers and change.rank in members else None


def _memory_of(entries: Sequence[Entry]) -> List[Memory]:
    return [memory for each in entries for memory in each.memory()]


def _in_host_memory(tensor: Any) -> Any:
    """The tensor, without its history; a copy if it does not lie in host memory, without gaps."""
    if not is_torch(tensor):
        return tensor
    return tensor.detach().cpu().contiguous()


def _broadcast(group: Group, memory: Sequence[Memory]) -> None:
    """Copies the tensors of the group's first rank to the same tensors of the others, all of one type at once."""
    by_type: Dict[int, List[Tuple[Any, Any]]] = {}
    for each in memory:
        sent = _in_host_memory(each.tensor)
        by_type.setdefault(view(sent).dtype, []).append((each.tensor, sent))
    for pairs in by_type.values():
        group.broadcast([sent for _, sent in pairs], 0, name="the state")
        for tensor, sent in pairs if group.rank != 0 else ():
            if is_torch(tensor) and tensor.data_ptr() != sent.data_ptr():
                tensor.detach().copy_(sent)


def _bytes_of(tensor: Any) -> int:
    return tensor.numel() * tensor.element_size() if is_torch(tensor) else memoryview(tensor).nbytes


def _hashes_of(entries: Sequence[Entry], memory: Sequence[Memory]) -> Dict[str, bytes]:
    hashes = {each.name: hash_of(_in_host_memory(each.tensor)) for each in memory if each.compared}
    for entry in entries:
        hashes.update({name: hash_of(bytearray(text)) for name, text in entry.texts().items()})
    return dict(sorted(hashes.items()))  # two ranks may have made the same tensors in another order
