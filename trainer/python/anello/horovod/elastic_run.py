"""Calls a training function in one world after the other."""
from __future__ import annotations

import functools
from typing import Any, Callable, Dict, Iterable

from ..errors import Error
from . import basics
from .elastic import Source, State, StateHandler, from_source
from .exceptions import HostsUpdatedInterrupt
from .process_sets import global_process_set
from .worlds import ElasticWorlds

_END = "the end of the function that hvd.elastic.run() calls"
_PACKAGE = __name__.split(".", maxsplit=1)[0]


def run(train: Callable[..., Any]) -> Callable[..., Any]:
    """Decorates a function of a State: all ranks begin with the same values.

    In an elastic job, the function is called again in each new world, with the values of the last commit if a rank has
    failed. It returns when it has returned on all ranks of a world; the world goes on until hvd.shutdown() or the end
    of the script. An error of the program itself passes on, and ends this process. Collectives between hvd.init() and
    this function are not allowed, because a process that joins later would call them alone.
    """

    @functools.wraps(train)
    def wrapper(state: State, *arguments: Any, **options: Any) -> Any:

        def call() -> Any:
            return train(state, *arguments, **options)

        worlds = basics.elastic_worlds()
        if worlds is None:
            state.sync()
            return call()
        worlds.is_training = True
        result = _in_each_world(worlds, state, call)
        worlds.is_training = False  # it stays True after an exception: this process has not finished
        return result

    return wrapper


def _in_each_world(worlds: ElasticWorlds, state: State, call: Callable[[], Any]) -> Any:
    is_first, skip_sync = True, False
    while True:
        has_failed = False
        try:
            if not is_first:
                state.on_reset()
            _synchronize(worlds, state, skip_sync)
            result = call()
            global_process_set.agenda.barrier(name=_END, waits=True).wait()
            return result
        except HostsUpdatedInterrupt as change:
            skip_sync = change.skip_sync
        except Error as error:
            if not worlds.survives(error):
                raise
            has_failed, skip_sync = True, False
            if state._is_torn():
                worlds.spoil()
        # Nothing of the old world writes to the state any more when the next one is there.
        basics.next_world()
        is_first = False
        if has_failed:
            state.restore()


def _synchronize(worlds: ElasticWorlds, state: State, skip_sync: bool) -> None:
    if worlds.is_synchronized:  # by an earlier function of the script
        state.sync()
        return
    change = worlds.job.begin_synchronization(_manifest(state))
    Source.rank, Source.was_asked = change.sources[0], False
    try:
        if change.receivers or not skip_sync:
            state.sync()
            _require_source(state)
    finally:
        Source.rank = 0
    worlds.job.end_synchronization({} if skip_sync else _hashes(state))
    worlds.is_synchronized = True


def _require_source(state: State) -> None:
    """A program's own sync() may broadcast from rank 0, as Horovod's do. ValueError if that has an older state."""
    parts: Iterable[Any] = (state, *state._handlers.values())
    own = [type(each).__name__ for each in parts if type(each).sync.__module__.split(".")[0] != _PACKAGE]
    if state._broadcast_object is not from_source:
        own.append("bcast_object")
    if own and Source.rank != 0 and not Source.was_asked:
        raise ValueError(f"rank {Source.rank} has the newest state, but {own[0]} may have sent that of rank 0: let it "
                         "broadcast from hvd.elastic.source_rank()")


def _manifest(state: State) -> str:
    """A line for each part of the state, by which the ranks see whether they train the same."""
    parts = {name: each.describe() for name, each in state._handlers.items() if isinstance(each, StateHandler)}
    lines = [f"{name}{part}: {text}" for name in parts for part, text in parts[name].items()]
    return "\n".join([*lines, *(f"{name}: a value" for name in state._names)])


def _hashes(state: State) -> Dict[str, bytes]:
    parts = {name: each.hashes() for name, each in state._handlers.items() if isinstance(each, StateHandler)}
    return {name + part: its for name in parts for part, its in parts[name].items()}
