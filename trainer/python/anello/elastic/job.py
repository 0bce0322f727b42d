"""A process's part in an elastic job: it makes worlds, one after another, for a program that sends its state itself."""
from __future__ import annotations

import ctypes
from typing import Any, Callable, List, Mapping, NamedTuple, NoReturn, Optional, Sequence, Tuple

from .._library import C, default, header, lib
from ..errors import Error
from ..interruption import interruptible, made
from ..tensors import in_place_array, view
from ..work import Owned
from ..world import World, config_of

_HASH_BYTES = 16


class WorldEnds(Exception):
    """Raised by a commit: the world ends here as planned, because processes join. Then call Job.enter()."""

    def __init__(self) -> None:
        super().__init__("the world ends here as planned, because processes join the job: job.enter() must follow")


class Change(NamedTuple):
    """How this process came into its newest world.

    Attributes:
        generation: the number of the world.
        rank, size: this process's rank in the world, and the number of its ranks.
        revision: the number of commits of the job so far.
        sources: the ranks that have the newest state.
        receivers: all other ranks, which get the newest state. Both lists are empty until the synchronization has
            begun.
        bytes: the number of bytes that each receiver got.
        paused: seconds from the end of the last world, or from joining, until the training goes on.
        reason: who left and why, and who joined; empty at first.
    """

    generation: int
    rank: int
    size: int
    revision: int
    sources: List[int]
    receivers: List[int]
    bytes: int
    paused: float
    reason: str


class _World(World):
    """The world of a generation, which belongs to the job.

    As a context manager the world ends with job.finish(). If the block ends with an error that the job survives, the
    program goes on after the `with` block, where job.enter() may follow. Any other exception leaves the block, and ends
    the world on every rank, with the exception as the reason.
    """

    def __init__(self, handle: int, job: "Job") -> None:
        super().__init__(handle, lambda _: None)
        self._job = job  # the job frees the handle
        self.has_ended = False  # True after a planned end, or after the loss of a rank

    def __exit__(self, kind: Any, error: Any, _: Any) -> bool:  # type: ignore[override]
        if kind is None:
            self._job.finish()
            return False
        if self._job.survives(error):
            self.has_ended = True
            return True
        if issubclass(kind, Exception):
            self.abort(f"{kind.__name__}: {error}")
        return False

    def finish(self) -> NoReturn:
        """ValueError: the job ends its worlds."""
        raise ValueError("this world belongs to an elastic job: call the job's finish()")

    def leave(self) -> NoReturn:
        """ValueError: the job ends its worlds."""
        raise ValueError("this world belongs to an elastic job, whose enter() or finish() leaves it")


class Job:
    """A process's part in the elastic job of `anello rendezvous --min-np N`, which ANELLO_RENDEZVOUS names.

        job = Job()
        while not job.finished and job.enter():
            with job.world as world:            # after an error that the job survives, goes on after the block
                change = job.begin_synchronization(manifest)
                job.deliver(tensors)            # from the sources to the receivers
                job.end_synchronization(hashes)
                while job.revision < steps:
                    ...                         # collectives of the world
                    job.commit(update)          # writes the state

    Its methods raise the errors of `anello.errors`. Use it in one thread. Methods that block end when a handler of a
    signal raises, as Ctrl-C does; the job is then over. A job that is dropped without finish() is left, and the others
    go on without this process.

    Attributes:
        world: the world of the newest generation, a `World`. ValueError if there is none. Calls on the worlds of
            earlier generations raise ValueError, and calls on the groups of such worlds raise RankFailed.
        finished: whether finish() has ended the training.
    """

    def __init__(self) -> None:
        """Joins the job. Blocks until the rendezvous is found, for ANELLO_START_TIMEOUT at most."""
        self._interrupted = ctypes.c_int(0)  # must live as long as the handle
        self.finished = False
        self._world: Optional[_World] = None
        self._failure: Optional[BaseException] = None
        self._owned = Owned(made(config_of(()), lib.anello_elastic_join, lib.anello_elastic_free, self._interrupted),
                            lib.anello_elastic_free)

    def _blocking(self, function: Callable[..., Any], *arguments: Any) -> None:
        if self._interrupted.value:
            raise ValueError("the job is over, because a signal has ended one of its calls")
        interruptible(lambda: function(self._owned.live("job"), *arguments), self._interrupt, lambda _: None)

    def _interrupt(self) -> None:
        self._interrupted.value = 1
        if self._world is not None:
            self._world.abort("a signal has ended this process's part in the elastic job")

    def enter(self) -> bool:
        """Leaves the world and makes the next one. Returns False if the others have finished without this process.

        Blocks until every process of the last world has entered or ended, and until enough processes are there. If it
        returns False, the state of this process is not the result of the training. If it raises, this process cannot go
        on.
        """
        self._end_world()
        handle = ctypes.c_void_p()
        self._blocking(lib.anello_elastic_enter, ctypes.byref(handle))
        if handle.value:
            self._world = _World(handle.value, self)
        return self._world is not None

    def _end_world(self) -> None:
        world, self._world = self._world, None
        failure, self._failure = self._failure, None
        if world is not None:
            world._end(failure if isinstance(failure, Exception) else None)

    @property
    def world(self) -> World:
        """The world of the newest generation."""
        if self._world is None:
            raise ValueError("the job has no world: call enter()")
        return self._world

    @property
    def change(self) -> Change:
        """How this process came into the newest world."""
        change = default("anello_elastic_change")
        lib.anello_elastic_get_change(self._owned.live("job"), ctypes.byref(change))
        return Change(change.generation, change.rank, change.size, change.revision,
                      _ranks(change.sources, change.sources_size), _ranks(change.receivers, change.receivers_size),
                      change.bytes, change.paused_ns / 1e9, change.reason.decode("utf-8", "replace"))

    def begin_synchronization(self, manifest: str) -> Change:
        """Decides which ranks send the state: see `sources` and `receivers` of the result. All ranks call; blocks.

        Call it once in each world, before the first commit. From here on a receiver is not clean: if anything fails
        before end_synchronization() has succeeded, the receiver cannot be a source in the next world.

        Args:
            manifest: a line for each entry of the state, with its name, kind and size. If the manifest differs between
                ranks, all ranks get Mismatch with the first line that differs.
        """
        self._blocking(lib.anello_elastic_begin, manifest.encode())
        return self.change

    def deliver(self, tensors: Sequence[Any]) -> None:
        """Copies the elements of the sources' tensors to the same tensors of the receivers. All ranks call; blocks.

        Each source sends a part of the elements, and receives nothing. The tensors must have the same sizes on all
        ranks. They must also be equal on all sources, so give their hashes to end_synchronization(). You may call it
        several times between begin_synchronization() and end_synchronization().
        """
        views = [view(each) for each in tensors]
        self._blocking(lib.anello_elastic_deliver, in_place_array(views), len(views))

    def end_synchronization(self, hashes: Mapping[str, bytes], size: int = 0) -> None:
        """Compares the state between all ranks. Afterwards each rank holds the state, and is clean. All ranks call;
        blocks.

        If hashes differ, raises an Error with the code "diverged", which names the entry and the ranks.

        Args:
            hashes: the hash of each entry, as hash_of() returns it, in the same order on all ranks.
            size: the number of bytes that each receiver got, for messages.
        """
        self._blocking(lib.anello_elastic_end, *_entries_of(hashes), size)

    def compare(self, hashes: Mapping[str, bytes]) -> None:
        """Compares the state between all ranks after the same commit. All ranks call; blocks.

        If hashes differ, raises an Error with the code "diverged", which names the entry and the ranks. Without this
        comparison, a value that differs ends the job only when a world begins, perhaps after days.

        Args:
            hashes: as for end_synchronization().
        """
        self._blocking(lib.anello_elastic_compare, *_entries_of(hashes))

    @property
    def revision(self) -> int:
        """The number of completed commits of the job."""
        return lib.anello_elastic_revision(self._owned.live("job"))

    @property
    def holds(self) -> bool:
        """True if the state has been synchronized; False at the beginning of a process."""
        return bool(lib.anello_elastic_holds(self._owned.live("job")))

    @property
    def clean(self) -> bool:
        """True if the state is that of `revision`.

        False during a commit and while this rank receives the state. If one of these fails, it stays False until a
        synchronization succeeds.
        """
        return bool(lib.anello_elastic_clean(self._owned.live("job")))

    @property
    def change_is_planned(self) -> bool:
        """True if the world will end at one of the next commits, because processes join or leave."""
        return bool(lib.anello_elastic_change_is_planned(self._owned.live("job")))

    def commit(self, update: Optional[Callable[[], Any]] = None) -> None:
        """Ends a step: calls update(), which writes the state and calls no collective, and counts a revision.

        If update() raises, the state stays unclean, and this rank will receive the state of another rank. Without
        `update`, the program has written the state before this call: if a collective fails between the writes and this
        call, the step is applied but not counted, and the next world applies the step again.

        If the world ends here because processes join, counts the revision and then raises WorldEnds. It blocks only
        while such a change is planned, until the other ranks have answered.
        """
        lib.anello_elastic_commit_begin(self._owned.live("job"))
        if update is not None:
            update()
        ends = ctypes.c_int()
        lib.anello_elastic_commit_end(self._owned.live("job"), ctypes.byref(ends))
        if ends.value:
            raise WorldEnds

    def survives(self, error: BaseException) -> bool:
        """True if the world has ended with this error because of another rank, or as planned: enter() may follow."""
        if isinstance(error, WorldEnds):
            return True
        if not isinstance(error, Error) or self._world is None or self._interrupted.value:
            return False
        status, rank = getattr(C, error.code.upper(), 0), -1 if error.rank is None else error.rank
        survived = lib.anello_elastic_survives(self._owned.live("job"), status, rank) == 1
        if survived:
            self._failure = error
        return survived

    def finish(self) -> None:
        """Declares that the training has ended on this rank. Blocks until it has ended on all ranks, or a rank's
        process has ended.

        If a process has ended, the others may redo their last step. Raises Mismatch if another rank's training goes on.
        """
        self._blocking(lib.anello_elastic_finish)
        self._end_world()
        self.finished = True

    def leave(self) -> None:
        """Leaves the job without waiting; the others go on without this process. Does nothing after that."""
        self._end_world()
        self._owned.free()


def _ranks(address: Optional[int], count: int) -> List[int]:
    return list((ctypes.c_int * count).from_address(address)) if address else []


def _entries_of(hashes: Mapping[str, bytes]) -> Tuple[Any, int]:
    """The array of these entries for C, and its length."""
    entries = (header.structs["anello_elastic_entry"] * len(hashes))()
    for entry, (name, value) in zip(entries, hashes.items()):
        if len(value) != _HASH_BYTES:
            raise ValueError(f"the hash of '{name}' has {len(value)} bytes, not {_HASH_BYTES}: use hash_of()")
        entry.name = name.encode()
        entry.high, entry.low = int.from_bytes(value[:8], "big"), int.from_bytes(value[8:], "big")
    return entries, len(entries)


def hash_of(tensor: Any) -> bytes:
    """The hash of a tensor's elements, for end_synchronization(): XXH3 with 128 bits. The tensor is contiguous."""
    elements, high, low = view(tensor), ctypes.c_uint64(), ctypes.c_uint64()
    lib.anello_elastic_hash(elements.address, elements.count * elements.item_bytes, ctypes.byref(high),
                            ctypes.byref(low))
    return high.value.to_bytes(8, "big") + low.value.to_bytes(8, "big")
