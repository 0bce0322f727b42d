"""The loop over the worlds of an elastic job."""
from __future__ import annotations

import functools
from typing import Any, Callable, Iterator, Optional

from ..errors import Error
from ..world import World
from .job import Job
from .state import State


class NotNeeded(SystemExit):
    """Raised if the other processes have finished without this one: its state is not the result.

    It ends the script with the status 0, unless the program catches it.
    """

    def __init__(self) -> None:
        super().__init__(0)


def worlds(state: State, verify: bool = True) -> Iterator[World]:
    """The worlds of an elastic job, one after another; in each of them all ranks begin with the newest state.

        for world in anello.elastic.worlds(state):
            with world:
                ...                                         # train until the end

    The `with` block ends in one of four ways. At the regular end of the block, the training has ended on this rank: the
    block waits until the training has ended on all ranks, and the loop ends. After the loss of a rank, and after a
    commit where processes join, the block ends without an exception, and the loop goes on with the next world. Any
    other exception leaves the block and the loop, and ends this process's part; the other processes go on without it. A
    `for` loop without a `with` block could not do that, because Python passes no exception of the loop's body to the
    iterator.

    Args:
        verify: whether the ranks compare their states, when a world begins and after the commits 1, 2, 4, 8, ... If
            processors or GPUs of the ranks round differently, so that an optimizer's results differ in their last bits,
            the states are not equal: then `verify` must be False on all ranks.

    Joins the job of ANELLO_RENDEZVOUS. Before each turn of the loop, blocks until there is a world. Raises NotNeeded,
    and the errors of Job.
    """
    if state._job is not None:
        raise ValueError("this state has had a job: make another State for another job")
    job = Job()
    state._attach(job, verify)
    while job.enter():
        world = job.world
        try:
            state._synchronize()
        except Exception as error:
            if job.survives(error):
                continue
            if not isinstance(error, Error):  # the others wait for this rank
                world.abort(f"{type(error).__name__}: {error}")
            raise
        yield world
        if job.finished:
            return
        if not world.has_ended:  # type: ignore[attr-defined]
            raise RuntimeError("the body of the loop over worlds() must be a block `with world:`, which ends the world")
    raise NotNeeded


def run(train: Optional[Callable[..., Any]] = None, *, verify: bool = True) -> Callable[..., Any]:
    """Decorates a function train(world, state, ...). The decorated function is called as train(state, ...).

    The decorated function calls `train` in each world, as the body of the loop over worlds(state), until `train`
    returns. Then it returns the result of `train`. Raises the exceptions of worlds() and of `train`. `verify`: see
    worlds(); it is given as @run(verify=False).
    """
    if train is None:
        return functools.partial(run, verify=verify)

    @functools.wraps(train)
    def wrapper(state: State, *arguments: Any, **options: Any) -> Any:
        result = None
        for world in worlds(state, verify):
            with world:
                result = train(world, state, *arguments, **options)
        return result

    return wrapper
