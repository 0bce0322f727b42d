"""The state of an elastic job: a job that goes on when ranks end and others join."""
from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional

from ..world import World
from .entries import Entry, entry_of
from .exchange import compare, synchronize
from .job import Change, Job


class State:
    """The values that have to survive: the keyword arguments, which become attributes. All ranks give the same names
    and kinds.

        state = anello.elastic.State(model=model, optimizer=optimizer, best=0.0)

    - Modules and optimizers of torch, arrays of numpy, tensors of torch and buffers are sent from memory to memory.
      They must be equal on all ranks at each commit, except for the buffers of a module. Only an update may write them.
      No copy of them is kept: a step that fails leaves them as they were.
    - Objects with state_dict() and load_state_dict(), such as schedules of learning rates, and all other values, are
      pickled. They must be equal on all ranks at each commit too. They may be changed at any time: a copy of each
      commit is kept, and a rank returns to this copy if the step fails. Such copies are also kept of a module's
      buffers, and of the settings of an optimizer's groups.

    The state of random number generators is not a part of a State: if a step needs random numbers, seed them from
    `revision`.

    Attributes: the arguments, under their names. An argument must not have the name of a method or property of this
    class.
    """

    def __init__(self, **entries: Any) -> None:
        self._entries: Dict[str, Entry] = {}
        self._job: Optional[Job] = None
        self._verify = True
        self._taken: Optional[object] = None  # the batch that the next commit counts
        self._loop = ""                       # the loop of that batch
        for name, value in entries.items():
            if name.startswith("_") or hasattr(type(self), name):
                raise ValueError(f"an entry cannot have the name '{name}', because that is an attribute of State")
            self._entries[name] = entry_of(name, value)
        self._counts = Entry("batches()", {})
        self._entries[self._counts.name] = self._counts

    def __getattr__(self, name: str) -> Any:
        entries = self.__dict__.get("_entries", {})
        if name not in entries:
            raise AttributeError(f"the state has no '{name}'; it has {', '.join(list(entries)[:-1])}")
        return entries[name].value

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("_"):
            object.__setattr__(self, name, value)
        elif name in self._entries:
            self._entries[name].assign(value)
        else:
            raise AttributeError(f"'{name}' would not survive: only the arguments of State() do, which are "
                                 f"{', '.join(list(self._entries)[:-1])}")

    @property
    def revision(self) -> int:
        """The number of commits of the job; 0 before it has begun."""
        return 0 if self._job is None else self._job.revision

    @property
    def world(self) -> World:
        """The newest world. ValueError before the job has begun."""
        return self._attached().world

    @property
    def change(self) -> Change:
        """How this process came into the newest world. ValueError before the job has begun."""
        return self._attached().change

    def commit(self, *updates: Callable[[], Any]) -> None:
        """Ends a step: calls the updates, in order, and counts a revision. All ranks call it after the same step.

            state.commit(optimizer.step, schedule.step)

        The updates write the state, and call no collective: if an update raises, this rank's state is not complete, and
        the rank must receive the state of another rank. Only a state without memory (see the class) can be committed
        without an update. If the program wrote memory before the commit, and a collective failed in between, the next
        world would write the memory again.

        After the commits 1, 2, 4, 8, ... the ranks compare their entries. If an entry differs, they raise an Error with
        the code "diverged", which names the entry and the ranks. If an entry cannot be sent any more, they raise
        TypeError. So these commits are collectives of the world, like those of the loop.

        If processes join here, commit() ends the world by an exception for the loop over worlds(). So everything that
        belongs to the step must be done before the commit or in an update: statements after the commit may be skipped.
        """
        job = self._attached()
        wrong = [each for each in updates if not callable(each)]
        if wrong:
            raise TypeError(f"an update must be a function, not {wrong[0]!r}: commit(optimizer.step), without ()")
        if not updates and any(each.holds_memory for each in self._entries.values()):
            raise TypeError("commit() needs the functions that write the state, for example commit(optimizer.step)")
        job.commit(lambda: self._write(updates))
        if job.revision & (job.revision - 1) == 0:
            for each in self._entries.values():
                each.require_sendable()  # it may have changed
            if self._verify and job.world.size > 1:
                compare(job, list(self._entries.values()))

    def _write(self, updates: Any) -> None:
        for each in updates:
            each()
        if self._taken is not None:
            self._counts.value[self._loop] = self._position(self._loop) + 1
            self._taken = None
        self._keep()

    def _keep(self) -> None:
        for each in self._entries.values():
            each.keep_named()

    def _attached(self) -> Job:
        if self._job is None:
            raise ValueError("the state belongs to no job yet: use it in the loop over anello.elastic.worlds(state)")
        return self._job

    def _attach(self, job: Job, verify: bool) -> None:
        self._job, self._verify = job, verify

    def _synchronize(self) -> None:
        """Gives this rank the newest state. Called once in each world."""
        job = self._attached()
        if job.holds and job.clean:
            for each in self._entries.values():
                each.set_back()
        self._taken = None
        synchronize(job, list(self._entries.values()), self._verify)
        self._keep()

    def _position(self, loop: str) -> int:
        """The number of batches of a loop that were committed."""
        return self._counts.value.get(loop, 0)

    def _take(self, loop: str, token: object) -> None:
        self._loop, self._taken = loop, token

    def _has_taken(self, token: object) -> bool:
        return self._taken is token

    def __repr__(self) -> str:
        names: List[str] = list(self._entries)[:-1]
        return f"<anello.elastic.State: {', '.join(names)}; revision {self.revision}>"
