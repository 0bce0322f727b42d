"""Process sets: groups of ranks with their own operations, and the set of all ranks."""
from __future__ import annotations

import itertools
import reprlib
from typing import TYPE_CHECKING, Any, Iterable, List, Optional, Protocol, Sequence, Union

from ..agenda import Agenda
from ..errors import Mismatch
from .source import require_newest
from .user_warning import warn

if TYPE_CHECKING:
    from .lasting_sets import LastingSets


class ProcessSet:
    """Some ranks of the world. It can be used once `init` or `add_process_set` has registered it.

    Attributes:
        ranks: the ranks of the world that belong to it, in order.
        process_set_id: the same on all ranks; None before the set is registered and after it is removed. A later set
            may get the id of a removed set, as in Horovod.
        number: the same on all ranks. No other set of this world ever gets this number, so that functions which were
            traced for a removed set do not run on another set.
    """

    def __init__(self, ranks_or_comm: Iterable[int]) -> None:
        if not isinstance(ranks_or_comm, Iterable):
            raise ValueError("a process set is a list of ranks; communicators of MPI cannot be used")
        self.ranks: List[int] = sorted(int(rank) for rank in ranks_or_comm)
        if len(set(self.ranks)) != len(self.ranks):
            raise ValueError(f"the process set {self.ranks} has a rank twice")
        self.process_set_id: Optional[int] = None
        self.number: Optional[int] = None
        self._agenda: Optional[Agenda] = None
        self._why_ended: Optional[str] = None

    def __deepcopy__(self, _: Any) -> "ProcessSet":
        """Returns this set itself, so that a copy of a layer uses it too."""
        return self

    def __reduce__(self) -> Any:
        """Pickles only the ranks; the loaded set is not registered. The set of all ranks becomes the set of all ranks
        of the loading process."""
        return "global_process_set" if self is global_process_set else (ProcessSet, (self.ranks,))

    def included(self) -> bool:
        """True if this process belongs to the set."""
        self._require_registered()
        return self._agenda is not None

    def size(self) -> int:
        """The number of its ranks."""
        self._require_registered()
        return len(self.ranks)

    def rank(self) -> int:
        """This process's number in the set. Raises ValueError if this process does not belong to the set."""
        return self.unrestricted_agenda.group.rank

    @property
    def agenda(self) -> Agenda:
        """The set's operations. Raises ValueError if this process does not belong to the set."""
        self._require_registered()
        if _refusal is not None:
            raise ValueError(_refusal)
        _warn_of_an_operation()
        return self.unrestricted_agenda

    @property
    def unrestricted_agenda(self) -> Agenda:
        """Like `agenda`, but may also be used between hvd.init() and the function of hvd.elastic.run(): for calls that
        are not operations."""
        self._require_registered()
        if self._agenda is None:
            raise ValueError(f"this process is not one of the ranks {self.ranks} of the process set")
        return self._agenda

    def rank_of(self, world_rank: int) -> int:
        """The number in the set of a rank of the world, for example of a broadcast's root. Raises ValueError if the
        rank is not a member."""
        self._require_registered()
        require_newest(world_rank)
        if world_rank not in self.ranks:
            raise ValueError(f"rank {world_rank} is not one of the ranks {self.ranks} of the process set")
        return self.ranks.index(world_rank)

    def _require_registered(self) -> None:
        if self.number is None:  # a program can set process_set_id itself
            if self is global_process_set:
                raise ValueError("Horovod has not been initialized; use hvd.init().")
            raise ValueError(f"{self} is not registered: {self._why_ended or 'give it to init() or add_process_set()'}")

    def __repr__(self) -> str:
        return f"ProcessSet(process_set_id={self.process_set_id}, ranks={self.ranks}, mpi_comm=None)"


global_process_set = ProcessSet([])


def as_process_set(given: Union[ProcessSet, Iterable[int]]) -> ProcessSet:
    """Makes a set of these ranks; a set is returned unchanged. ValueError or TypeError if `given` is neither."""
    return given if isinstance(given, ProcessSet) else ProcessSet(given)


def require_set(given: Any) -> ProcessSet:
    """Returns the argument process_set of a call. TypeError if it is not a process set."""
    if not isinstance(given, ProcessSet):
        ranks = reprlib.repr(given)
        raise TypeError(f"process_set must be a ProcessSet, not {ranks}: call added = hvd.add_process_set({ranks}) once, "
                        "on all ranks, and give process_set=added")
    return given


class Watcher(Protocol):
    """Is informed when process sets are registered and removed."""

    def added(self, process_set: ProcessSet, world: Any) -> None:
        """Called when a set has been registered. The first one is the set of all ranks."""

    def removed(self, process_set: ProcessSet) -> None:
        """Called when a set ends; its agenda is freed after this call. The set of all ranks ends with the world."""


_AGREEMENT = "process sets"  # name of the operation in which the ranks compare their calls of add() and remove()
_watchers: List[Watcher] = []
_current: Optional["ProcessSets"] = None
_refusal: Optional[str] = None  # why no operation may be submitted now
_warning: Optional[str] = None  # why the next operation warns


def restrict_operations(has_joined_later: bool) -> None:
    """Restricts operations between hvd.init() and the function of hvd.elastic.run(). There, an operation raises
    ValueError if this process has joined a job that trains already; in any other process it only warns."""
    global _refusal, _warning
    if has_joined_later:
        _refusal = ("this process has joined a job that trains already, so its other ranks do not call an operation "
                    "between hvd.init() and the function of hvd.elastic.run(): call it there")
    else:
        _warning = ("an operation between hvd.init() and the function of hvd.elastic.run(): a process that joins later "
                    "would call it alone, so it gets a ValueError there, and ends; call it in the function")


def permit_operations() -> None:
    """Ends the restrictions."""
    global _refusal, _warning
    _refusal = _warning = None


def _warn_of_an_operation() -> None:
    """Warns once of an operation, if restrict_operations() has asked for this."""
    global _warning
    why, _warning = _warning, None
    if why is not None:
        warn(why)


def watch(watcher: Watcher) -> None:
    """Reports the existing sets to a watcher, and from then on every change."""
    _watchers.append(watcher)
    if _current:
        for each in _current.all:
            watcher.added(each, _current.world)


def set_with_id(process_set_id: int) -> ProcessSet:
    """The registered set of this id. ValueError if there is none."""
    found = [each for each in _current.all if each.process_set_id == process_set_id] if _current else []
    if not found:
        raise ValueError(f"process set {process_set_id} is not registered")
    return found[0]


def set_with_number(number: int) -> ProcessSet:
    """The registered set of this number. ValueError if it was removed."""
    found = [each for each in _current.all if each.number == number] if _current else []
    if not found:
        raise ValueError("the process set is not registered any more")
    return found[0]


class ProcessSets:
    """The registered process sets of a world. All ranks add and remove the same ones in the same order."""

    def __init__(self, world: Any, lasting: Optional["LastingSets"]) -> None:
        """`lasting`: the sets that go on from world to world. None if the job is not elastic."""
        global _current
        self.world = world
        self._lasting = lasting
        self.all: List[ProcessSet] = []
        self._next_number = 0
        self._on_gpus = False
        global_process_set.ranks = list(range(world.size))
        self._register(global_process_set, world)
        _current = self

    def use_gpus(self) -> None:
        """Lets all sets use GPU tensors without a copy. All ranks call it before other sets are added."""
        self._on_gpus = True
        global_process_set.agenda.use_gpus(self.world)

    def add(self, given: Union[ProcessSet, Sequence[int]]) -> ProcessSet:
        """Registers a set; done when all ranks have called with the same ranks. ValueError if such a set exists.

        Raises Mismatch if another rank adds or removes a different set, or if another rank's call was refused.
        """
        try:
            made = self._checked(given)
        except Exception as error:
            global_process_set.agenda.refuse("allgather", _AGREEMENT, error)
            raise
        self._agree(f"adds the process set {made.ranks}")
        self._register(made, self._group_of(made))
        return made

    def restore(self) -> List[ProcessSet]:
        """Registers the lasting sets, and returns the sets that have no ranks. All ranks call; blocks. Raises
        Mismatch."""
        assert self._lasting is not None
        lost = self._lasting.follow(
            lambda mine: global_process_set.agenda.allgather_bytes(mine, name=_AGREEMENT, waits=True).wait())
        for each in self._lasting.all:
            self._register(each, self._group_of(each))
        return lost

    def require_same(self, wanted: Sequence[ProcessSet]) -> None:
        """Raises Mismatch on all ranks if their initial sets differ. All ranks call; blocks."""
        self._agree(f"begins with the process sets {[each.ranks for each in wanted]}")

    def _checked(self, given: Union[ProcessSet, Sequence[int]]) -> ProcessSet:
        made = as_process_set(given)
        refusal = self.refusal([made])
        if refusal is not None:
            raise ValueError(refusal)
        return made

    def _group_of(self, made: ProcessSet) -> Any:
        return self.world.group(made.ranks) if self.world.rank in made.ranks else None

    def _register(self, made: ProcessSet, group: Any) -> None:
        used = {each.process_set_id for each in self.all}
        made.process_set_id = next(each for each in itertools.count() if each not in used)
        made.number = self._next_number
        self._next_number += 1
        if group is not None:
            made._agenda = Agenda(group)
            if self._on_gpus:
                made._agenda.use_gpus(self.world)
        self.all.append(made)
        for watcher in _watchers:
            watcher.added(made, self.world)

    def refusal(self, wanted: Sequence[ProcessSet]) -> Optional[str]:
        """Why these sets cannot all be registered, or None. Does not communicate."""
        moving = [] if self._lasting is None else [global_process_set, *self._lasting.all]
        known = {tuple(each.ranks): each for each in self.all if each not in moving}
        for each in wanted:
            if each.number is not None:
                return f"{each} is already registered"
            if not all(0 <= rank < self.world.size for rank in each.ranks):
                return (f"the process set {each.ranks} has a rank that is not in the world of "
                        f"{self.world.size} ranks")
            same = known.setdefault(tuple(each.ranks), each)
            if same is not each or wanted.count(each) > 1:
                whole = "; hvd.global_process_set is that of all ranks" if len(each.ranks) == self.world.size else ""
                return f"a process set of the ranks {each.ranks} is already registered: {same}{whole}"
        return None

    def remove(self, given: ProcessSet) -> bool:
        """Removes a set; done when all ranks have called. Returns False for the set of all ranks, and for a set that is
        not registered."""
        if given is global_process_set or given not in self.all:
            return False
        self._agree(f"removes the process set {given.ranks}")
        self._forget(given)
        self.all.remove(given)
        return True

    def end(self, why: Optional[str] = None) -> None:
        """Ends all sets, because the world ends now. `why`: for the error of a later use of a set."""
        global _current
        for each in self.all:
            self._forget(each)
            each._why_ended = why
        global_process_set.ranks = []
        _current = None

    @staticmethod
    def _forget(given: ProcessSet) -> None:
        for watcher in _watchers if given.number is not None else ():
            watcher.removed(given)
        given.process_set_id = given.number = None
        if given._agenda is not None:
            given._agenda.free()
            given._agenda = None

    @staticmethod
    def _agree(does: str) -> None:
        """Blocks until all ranks have called. Raises Mismatch on all of them if one rank makes a different call."""
        ranks = global_process_set.agenda.allgather_bytes(does.encode(), name=_AGREEMENT, waits=True).wait()
        other = next((rank for rank, each in enumerate(ranks) if each != ranks[0]), None)
        if other is not None:
            raise Mismatch(f"the ranks differ: rank 0 {ranks[0].decode()}, rank {other} {ranks[other].decode()}; all ranks "
                           "add and remove the same process sets in the same order", "mismatch")
