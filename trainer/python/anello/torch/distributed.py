"""A backend of torch.distributed: after `import anello.torch.distributed`, init_process_group("anello").

DistributedDataParallel and the functions of torch.distributed then use Anello, for tensors in host memory. Start the
ranks by `anello run`, by torchrun, or in any other way that torch supports.
"""
from __future__ import annotations

import atexit
import inspect
import os
import sys
import time
import uuid
from datetime import timedelta
from typing import Any, List, Optional

import torch.distributed as dist

from ..horovod.ending import PATIENCE_S, end_with_script
from ..world import World, init, init_through
from .distributed_group import AnelloProcessGroup as AnelloProcessGroup
from .distributed_work import Completer

_world: Optional[World] = None  # the world of the default group, if its backend is Anello
_beside: List[World] = []  # worlds of groups beside a default group of another backend, in the order of new_group()


def _maps_memory(world: World) -> bool:
    """True if the ranks of a world reduce tensors in place when the tensors lie in memory of the engine."""
    _, hosts, transport, _ = world.layout.split()
    return (hosts, transport) == ("1", "memory")


def _make(store: Any, rank: int, size: int, timeout: timedelta) -> AnelloProcessGroup:
    """Called by torch.distributed on every member of a new group.

    The default group is the world. If the default group has another backend, each group is a world of its own.
    """
    global _world
    if dist.is_initialized():
        if _world is not None and isinstance(dist.distributed_c10d._get_default_group(), AnelloProcessGroup):
            group = _world.group(_world_ranks(store, rank, size, _world.rank))
            return AnelloProcessGroup(group, timeout, store, _maps_memory(_world))
        _beside.append(_init_through(store, rank, size))
        return AnelloProcessGroup(_beside[-1], timeout, store, _maps_memory(_beside[-1]))
    _end(None)
    _world = init() if "ANELLO_RENDEZVOUS" in os.environ else _init_through(store, rank, size)
    if (_world.rank, _world.size) != (rank, size):
        raise RuntimeError(f"init_process_group was given rank {rank} of {size}, but this is rank {_world.rank} of "
                           f"{_world.size}: omit rank and world_size, or give those of the launcher")
    return AnelloProcessGroup(_world, timeout, store, _maps_memory(_world))


def _world_ranks(store: Any, rank: int, size: int, world_rank: int) -> List[int]:
    """The numbers in the world of a new group's members. Each member has only its own number, so the members exchange
    their numbers."""
    store.set(f"anello/{rank}", str(world_rank))
    members = []
    for each in range(size):
        try:
            members.append(int(store.get(f"anello/{each}")))
        except RuntimeError as error:
            raise RuntimeError(f"no rank has joined the new group as its rank {each} of {size}: a rank may be listed "
                               f"twice, or may not have called new_group() in time ({error})") from None
    return members


def _init_through(store: Any, rank: int, size: int) -> World:
    def get(key: str, limit: float) -> str:
        store.wait([key], timedelta(seconds=limit))
        return store.get(key).decode()

    return init_through(rank, size, store.set, get, _next_name(store, size))


def _next_name(store: Any, size: int) -> str:
    """Returns the name of a group's next world. It is equal on all members, and no other world has the same name.

    Members cannot count the worlds that they make, because each member may also be in other groups. The first member
    that calls this function chooses the name, so that no member waits for another one that has not called the function
    yet.
    """
    number, others = divmod(store.add("anello/joins", 1) - 1, size)
    key = f"anello/name/{number}"
    if others == 0:
        store.set(key, f"torch.distributed {uuid.uuid4().hex}")
    return store.get(key).decode()


def _end(patience: Optional[float]) -> None:
    """Ends the worlds of this process, in the order in which all ranks have made them.

    Waits up to `patience` seconds for unfinished operations and for the other ranks (None: without a limit), then
    raises TimeoutError.
    """
    global _world
    worlds = ([_world] if _world is not None else []) + _beside
    _world = None
    _beside.clear()
    end = None if patience is None else time.monotonic() + patience
    try:
        Completer.stop_all(patience)
        for world in worlds:
            if world.failure() is None:
                left = None if end is None else max(0.0, end - time.monotonic())
                world.barrier_async(name="the end of the script").wait(left)
                world.finish()
    finally:
        for world in worlds:
            world.leave()


@atexit.register
def _at_exit() -> None:
    world = _world or next(iter(_beside), None)
    if world is not None:
        end_with_script(world, _end, 'put its loop into "with model.join():"')
    try:
        Completer.stop_all(PATIENCE_S)
    except TimeoutError:  # the world has ended, and with it all operations
        print("anello: a callback of an operation has not returned; the script ends without it", file=sys.stderr)


def _register() -> None:
    # From torch 2.1 on, a backend declares its devices; torch warns about a backend that does not.
    takes_devices = "devices" in inspect.signature(dist.Backend.register_backend).parameters
    dist.Backend.register_backend("anello", _make, **({"devices": ["cpu"]} if takes_devices else {}))


if not hasattr(dist.Backend, "ANELLO"):
    _register()
