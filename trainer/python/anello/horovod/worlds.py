"""How this process comes into a world: into the one world of its job or, in an elastic job, into one world after the
other.

A process belongs to an elastic job if ANELLO_ELASTIC is 1, as `anello run --min-np` sets it. A process that is started
by hand needs ANELLO_RENDEZVOUS too.
"""
from __future__ import annotations

import contextlib
import os
import sys
from typing import Dict, Union

from ..elastic import Job, NotNeeded, WorldEnds
from ..errors import Error
from ..world import World
from ..world import init as _join_world
from .exceptions import HostsUpdatedInterrupt
from .settings import from_horovod


class _Spoilt(Exception):
    """Leaves a commit unfinished."""


class FixedWorld:
    """The world of a job that is not elastic: its ranks stay the same."""

    def next(self) -> World:
        """Makes the world. Blocks until all ranks have joined."""
        return _join_world(from_horovod())

    def survives(self, error: Exception) -> bool:
        """False: no other world follows."""
        return False

    def may_finish(self) -> bool:
        """True: a script that ends without an error has finished."""
        return True

    def finish(self, world: World) -> None:
        """Ends a world regularly. Blocks until all ranks have called it."""
        if world.failure() is None:
            world.finish()

    def leave(self, world: World) -> None:
        """Leaves a world without waiting."""
        world.leave()


class ElasticWorlds:
    """The worlds of an elastic job, one after the other.

    Attributes:
        job: this process's part in the job.
        is_synchronized: True if the ranks of this world have been given the same state.
        is_training: True while a function of hvd.elastic.run() runs. If the script ends meanwhile, this process has not
            finished.
        has_committed: True if this function has called state.commit().
    """

    def __init__(self) -> None:
        for setting in from_horovod():
            name, value = setting.split("=", 1)
            os.environ[name] = value
        self.job = Job()
        self.is_synchronized = self.is_training = self.has_committed = False

    def next(self) -> World:
        """Leaves the world, and makes the next one. Blocks until all processes of the last world have come or ended.

        Ends the script if the other processes have finished, or if this process was asked to leave.
        """
        self.is_synchronized = False
        if not self.job.enter():
            print("anello: this process ends: it was asked to leave, or the others have finished the job without it",
                  file=sys.stderr, flush=True)
            raise NotNeeded
        os.environ.update(_of_horovod(self.job.world))
        return self.job.world

    def survives(self, error: Exception) -> bool:
        """True if the world has ended with this error because of another rank, so that the next one may follow."""
        return self.job.survives(error)

    def commit(self) -> None:
        """Counts a commit of a function of hvd.elastic.run(). Raises HostsUpdatedInterrupt if the world ends here."""
        if not self.is_training or not self.is_synchronized:
            return
        self.has_committed = True
        try:
            self.job.commit()
        except WorldEnds:
            raise HostsUpdatedInterrupt from None

    def spoil(self) -> None:
        """Declares that this process does not have the state of its last commit: it will receive another rank's."""
        def fail() -> None:
            raise _Spoilt

        with contextlib.suppress(_Spoilt, Error):  # the engine refuses a commit that the state does not allow
            self.job.commit(fail)

    def may_finish(self) -> bool:
        """False if the script has ended in the middle of the training."""
        return not self.is_training

    def finish(self, world: World) -> None:
        """Ends the job for this process. Blocks until all ranks have called it, or a rank has ended."""
        if self.is_synchronized:
            self.job.finish()
        elif world.failure() is None:
            world.finish()

    def leave(self, world: World) -> None:
        """Leaves the job without waiting."""
        self.job.leave()


def _of_horovod(world: World) -> Dict[str, str]:
    """The variables that Horovod's launcher gives to a process."""
    numbers = {"RANK": world.rank, "SIZE": world.size, "LOCAL_RANK": world.local_rank, "LOCAL_SIZE": world.local_size,
               "CROSS_RANK": world.node_rank, "CROSS_SIZE": world.node_count}
    # `anello run` has set HOROVOD_HOSTNAME to the name of this host in the list of hosts.
    return {"HOROVOD_ELASTIC": "1", "HOROVOD_HOSTNAME": os.environ.get("HOROVOD_HOSTNAME", world.host(world.rank)),
            **{f"HOROVOD_{name}": str(number) for name, number in numbers.items()}}


Worlds = Union[FixedWorld, ElasticWorlds]


def is_elastic() -> bool:
    """True if this process belongs to an elastic job."""
    return os.environ.get("ANELLO_ELASTIC") == "1"


def worlds_of_process() -> Worlds:
    """The kind of worlds that the environment asks for. Joins the job if it is elastic."""
    return ElasticWorlds() if is_elastic() else FixedWorld()
