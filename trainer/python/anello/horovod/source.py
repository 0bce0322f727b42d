"""The rank that has the newest state while the ranks of an elastic job synchronize. It is not always rank 0."""
from __future__ import annotations

import contextlib
from typing import Iterator

_rank = 0


def source_rank() -> int:
    """The rank from which a program's own sync() must broadcast: this rank has the newest state. Horovod does not have
    this function."""
    return _rank


@contextlib.contextmanager
def synchronizing(source: int) -> Iterator[None]:
    """A block in which all ranks get the state of rank `source`."""
    global _rank
    _rank = source
    try:
        yield
    finally:
        _rank = 0


def require_newest(root: int) -> None:
    """Called with the root of each broadcast. ValueError if rank 0 would send a state that is not the newest one."""
    if root == 0 != _rank:
        raise ValueError(f"rank {_rank} has the newest state, so sync() must not broadcast from rank 0: broadcast from "
                         "hvd.elastic.source_rank()")
