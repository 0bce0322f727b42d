"""Calls a training function in one world after the other."""
from __future__ import annotations

import contextlib
import functools
import sys
import time
from typing import Any, Callable, Dict, Optional

from ..errors import Error, Mismatch
from . import basics
from .elastic import State
from .exceptions import HostsUpdatedInterrupt
from .process_sets import global_process_set, permit_operations
from .source import synchronizing
from .worlds import ElasticWorlds

_END = "the end of the function that hvd.elastic.run() calls"
_DIFFERS = "the end after calls that differ"
_MOMENT_S = 2.0
_LONG_S = 10.0  # without a commit


def run(train: Callable[..., Any]) -> Callable[..., Any]:
    """Decorates a function that takes a State: in each call, all ranks begin with the same values.

    In an elastic job, the function is called again in each new world, with the values of the last commit if a rank has
    failed. It returns when it has returned on all ranks of a world; the world goes on until hvd.shutdown() or the end
    of the script. This function does not catch errors of the program itself: they end this process. Collectives between
    hvd.init() and this function are not allowed, because a process that joins later would call them alone.
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
        permit_operations()
        result = _in_each_world(worlds, state, call)
        worlds.is_training = False  # after an exception it stays True, because then this process has not finished
        return result

    return wrapper


def _in_each_world(worlds: ElasticWorlds, state: State, call: Callable[[], Any]) -> Any:
    is_first, skip_sync = True, False
    while True:
        failure: Optional[str] = None  # a text, because the error itself would keep the tensors of its frames alive
        begun = time.monotonic()
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
                _wait_for_mismatch(error)
                raise
            failure, skip_sync = str(error), False
            if state._is_torn():
                worlds.spoil()
        hint = "" if worlds.has_committed else _hint_for_no_commit(time.monotonic() - begun)
        # When next_world() has returned, nothing of the old world writes to the state any more.
        basics.next_world()
        is_first = False
        if failure is not None:
            if basics.rank() == 0:
                print(f"anello: the training goes on at its last commit, {hint}after: {failure}", file=sys.stderr,
                      flush=True)
            state.restore()


def _hint_for_no_commit(seconds: float) -> str:
    return f"but it has made none in {seconds:.0f} s (did it forget state.commit()?), " if seconds >= _LONG_S else ""


def _wait_for_mismatch(error: Error) -> None:
    """Waits until all ranks have the same Mismatch as this rank.

    Otherwise another rank could see this rank end before it gets the error, and would then go on without this rank.
    """
    if isinstance(error, Mismatch):
        with contextlib.suppress(Error, TimeoutError):
            global_process_set.agenda.barrier(name=_DIFFERS, waits=True).wait(_MOMENT_S)


def _synchronize(worlds: ElasticWorlds, state: State, skip_sync: bool) -> None:
    if worlds.is_synchronized:  # by an earlier function of the script
        state.sync()
        return
    change = worlds.job.begin_synchronization(_manifest(state))
    skips = not change.receivers and worlds.job.world.min(int(skip_sync)) == 1  # ranks may differ
    if not skips:
        with synchronizing(change.sources[0]):
            state.sync()
    worlds.job.end_synchronization({} if skips else _hashes(state), state._sent_bytes())
    worlds.is_synchronized = True


def _manifest(state: State) -> str:
    """A line for each part of the state. The ranks compare these lines to find out whether they train the same
    model."""
    lines = [f"{name}{part}: {text}" for name, each in state._describing_handlers().items() for part, text in each.describe().items()]
    return "\n".join([*lines, *(f"{name}: a value" for name in state._names)])


def _hashes(state: State) -> Dict[str, bytes]:
    return {name + part: its for name, each in state._describing_handlers().items() for part, its in each.hashes().items()}
