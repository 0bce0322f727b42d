"""Calls a training function in one world after the other."""
from __future__ import annotations

import functools
import sys
from typing import Any, Callable, Dict

from ..errors import Error
from . import basics
from .elastic import State, StateHandler
from .exceptions import HostsUpdatedInterrupt
from .process_sets import global_process_set
from .source import synchronizing
from .worlds import ElasticWorlds

_END = "the end of the function that hvd.elastic.run() calls"


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
        failure = ""
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
            failure, skip_sync = str(error), False
            if state._is_torn():
                worlds.spoil()
        # Nothing of the old world writes to the state any more when the next one is there.
        basics.next_world()
        is_first = False
        if failure:
            if basics.rank() == 0:
                print(f"anello: the training goes on at its last commit, after: {failure}", file=sys.stderr, flush=True)
            state.restore()


def _synchronize(worlds: ElasticWorlds, state: State, skip_sync: bool) -> None:
    if worlds.is_synchronized:  # by an earlier function of the script
        state.sync()
        return
    change = worlds.job.begin_synchronization(_manifest(state))
    skips = not change.receivers and worlds.job.world.min(int(skip_sync)) == 1  # ranks may differ
    if not skips:
        with synchronizing(change.sources[0]):
            state.sync()
    worlds.job.end_synchronization({} if skips else _hashes(state))
    worlds.is_synchronized = True


def _manifest(state: State) -> str:
    """A line for each part of the state, by which the ranks see whether they train the same."""
    parts = {name: each.describe() for name, each in state._handlers.items() if isinstance(each, StateHandler)}
    lines = [f"{name}{part}: {text}" for name in parts for part, text in parts[name].items()]
    return "\n".join([*lines, *(f"{name}: a value" for name in state._names)])


def _hashes(state: State) -> Dict[str, bytes]:
    parts = {name: each.hashes() for name, each in state._handlers.items() if isinstance(each, StateHandler)}
    return {name + part: its for name in parts for part, its in parts[name].items()}
