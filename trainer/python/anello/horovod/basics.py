"""The world of the process: init, shutdown, ranks and sizes, process sets, and the features of this build."""
from __future__ import annotations

import array
import atexit
import threading
import time
from typing import Any, Dict, Iterable, List, Optional, Sequence, Tuple, Union

from ..errors import Error, Mismatch
from ..world import World
from .ending import end_with_script
from .gpus import Gpus, NoGpus
from .lasting_sets import LastingSets
from .process_sets import ProcessSet, ProcessSets, as_process_set, global_process_set, permit_operations, require_set
from .process_sets import restrict_operations
from .settings import misspelt, timeline
from .user_warning import warn
from .worlds import ElasticWorlds, FixedWorld, Worlds, is_elastic, worlds_of_process

_START = "hvd.init()"
_END = "hvd.shutdown(), or the end of the script"
_lock = threading.Lock()
_worlds: Worlds = FixedWorld()
_lasting = LastingSets()  # the sets of init() in an elastic job
_world: Optional[World] = None
_sets: Optional[ProcessSets] = None
_joins = 0  # how often all ranks of this world have called join() together


_gpus: Gpus = NoGpus()


def use_gpus(of_framework: Gpus) -> None:
    """Called by a framework when it is imported. The call takes effect at the next init()."""
    global _gpus
    _gpus = of_framework


def init(comm: Any = None, process_sets: Union[None, str, Sequence[ProcessSet]] = None) -> None:
    """Joins the world, and then computes a first sum; does nothing if this process is in a world already.

    If one rank's arguments are wrong, raises ValueError on all ranks, and all leave the world. Raises Mismatch if the
    ranks were given different process sets. In an elastic job, arguments are checked before the process joins, and sets
    may contain ranks that do not exist yet; see LastingSets.

    Args:
        comm: None, or the list of all ranks.
        process_sets: sets to register; "dynamic" is accepted, since sets can always be added.
    """
    global _worlds, _lasting
    with _lock:
        if _world is not None:
            return
        if is_elastic():
            if comm is not None:
                raise ValueError("comm must be None in an elastic job, because its ranks change")
            _lasting = LastingSets(_wanted(process_sets))
        _worlds = worlds_of_process()
        _join()
    if isinstance(_worlds, ElasticWorlds):
        _begin_elastic()
        restrict_operations(has_joined_later=_worlds.job.change.generation > 1)
    else:
        _begin(*_checked(comm, process_sets))


def elastic_worlds() -> Optional[ElasticWorlds]:
    """This process's part in an elastic job. None before init(), and if the job is not elastic."""
    return _worlds if isinstance(_worlds, ElasticWorlds) else None


def commit() -> None:
    """Counts a commit of an elastic job. Raises HostsUpdatedInterrupt if its world ends here as planned."""
    if isinstance(_worlds, ElasticWorlds):
        _worlds.commit()


def change_is_planned() -> bool:
    """True if the world of an elastic job will end at one of the next commits, because processes join or leave."""
    return isinstance(_worlds, ElasticWorlds) and _worlds.job.change_is_planned


def next_world() -> None:
    """In an elastic job: leaves the world, and makes the next one. Ends the script if this process is not needed."""
    _join_next()
    _begin_elastic()


def _begin_elastic() -> None:
    while True:
        try:
            return _begin(_lasting.all, None)
        except Error as error:
            if not _worlds.survives(error):
                raise
        _join_next()


def _join_next() -> None:
    with _lock:
        if _sets is not None:
            _sets.end("its world has ended: in an elastic job, add process sets at the beginning of the function that "
                      "hvd.elastic.run() calls")
        _join()


def _join() -> None:
    global _world, _sets, _joins
    _world, _sets, _joins = None, None, 0
    _world = _worlds.next()
    _sets = ProcessSets(_world, _lasting if is_elastic() else None)


def _begin(wanted: Sequence[ProcessSet], refusal: Optional[str]) -> None:
    """The part of init() after this process has joined the world. `refusal`: why this rank's arguments are wrong."""
    assert _world is not None and _sets is not None
    for name, meant in misspelt().items() if _world.rank == 0 else ():
        warn(f"{name} is not a variable of Horovod and is ignored; {meant} is one")
    records = _world.rank == 0 and bool(timeline())
    with_timeline, refusals, with_gpu, with_sets = _first_sums(
        _world.size, float(records), float(refusal is not None), float(_gpus.usable()), float(bool(wanted)))
    if refusals:
        shutdown()
        raise ValueError(refusal or f"{refusals:.0f} other ranks were given wrong arguments for hvd.init()")
    _gpus.enable(with_gpu == _world.size)
    if with_gpu and not _gpus.usable():
        warn(f"rank {_world.rank} {_gpus.missing()}: all ranks copy tensors of GPUs to host memory and back")
    if _gpus.enabled():
        _sets.use_gpus()
    if with_timeline:
        _start_timeline(timeline())
    if with_sets:
        _add_all(_sets, wanted)
    _lasting.has_begun = True


def _add_all(sets: ProcessSets, wanted: Sequence[ProcessSet]) -> None:
    try:
        if is_elastic():
            lost = sets.restore()
            return _lasting.warn_of(lost) if rank() == 0 else None
        sets.require_same(wanted)
    except Mismatch as error:
        # The other ranks wait for this rank, and after abort() they go on without it.
        if is_elastic() and error.rank is None:
            world().abort(str(error))
        shutdown()
        raise
    for each in wanted:
        sets.add(each)


def _checked(comm: Any, process_sets: Any) -> Tuple[List[ProcessSet], Optional[str]]:
    """The requested sets, and the reason if they are wrong. Does not raise, because other ranks wait for this rank."""
    assert _world is not None and _sets is not None
    if comm is not None and not (isinstance(comm, Iterable) and list(comm) == list(range(_world.size))):
        return [], "comm must be None: make a process set of some ranks with add_process_set()"
    try:
        wanted = _wanted(process_sets)
    except (TypeError, ValueError) as error:
        return [], str(error)
    return wanted, _sets.refusal(wanted)


def _wanted(process_sets: Any) -> List[ProcessSet]:
    """The sets of the argument of init(). Raises TypeError or ValueError if this argument alone shows an error."""
    if process_sets is None or process_sets == "dynamic":
        return []
    if isinstance(process_sets, (str, ProcessSet)) or not isinstance(process_sets, Iterable):
        raise ValueError(f'process_sets must be a list of process sets, or "dynamic"; not {process_sets!r}')
    try:
        return [as_process_set(each) for each in process_sets]
    except (TypeError, ValueError) as error:
        raise ValueError(f"process_sets: {error}") from error


def _first_sums(size: int, *mine: float) -> List[float]:
    """Calls the first allreduce. This opens links, and loads code that otherwise the first step would have to load."""
    total = array.array("d", [1.0, *mine])
    global_process_set.agenda.allreduce([total], name=_START, waits=True).wait()
    ones, *sums = total
    if ones != size:
        raise Error(f"{size} ranks added up 1 each in {_START} and received {ones}: the machine may be damaged")
    return sums


def _start_timeline(path: str) -> None:
    """Only rank 0's path is used. If the timeline cannot be written, the training continues without it."""
    try:
        start_timeline(path)
    except Error as error:
        if error.code != "file":
            raise
        if rank() == 0:
            warn(f"there is no timeline (HOROVOD_TIMELINE): {error}")


def shutdown() -> None:
    """Ends the world regularly, when all ranks have called it. Does nothing before init()."""
    _end(None)


def _end(patience: Optional[float]) -> None:
    """Ends the world. Waits up to `patience` seconds for the other ranks (None: without a limit), then leaves it."""
    global _world, _sets, _worlds
    with _lock:
        world, sets, worlds = _world, _sets, _worlds
        _world, _sets = None, None
    if world is None or sets is None:
        return
    permit_operations()
    try:
        if worlds.may_finish():
            if world.failure() is None:
                _wait_for_others(world, patience)
            sets.end()
            worlds.finish(world)
    finally:
        sets.end()
        worlds.leave(world)
        _worlds = FixedWorld()


def _wait_for_others(world: World, patience: Optional[float]) -> None:
    # Other ranks may wait in a named operation: this barrier makes their messages name this rank.
    began = time.monotonic()
    try:
        global_process_set.agenda.barrier(name=_END, waits=True).wait(patience)
        left = None if patience is None else max(0.0, patience - (time.monotonic() - began))
        world.barrier_async(name=_END).wait(left)
    except Error as error:
        if not _worlds.survives(error):
            raise


def is_initialized() -> bool:
    """True between init() and shutdown()."""
    return _world is not None


def world() -> World:
    """The world, for functions that take a group, such as anello.average_metrics(). Horovod does not have it.

    ValueError before init().
    """
    if _world is None:
        raise ValueError("Horovod has not been initialized; use hvd.init().")
    return _world


def rank() -> int:
    """This process's number, from 0."""
    return world().rank


def size() -> int:
    """The number of processes."""
    return world().size


def local_rank() -> int:
    """This process's number among those of its host."""
    return world().local_rank


def local_size() -> int:
    """The number of processes on this host."""
    return world().local_size


def cross_rank() -> int:
    """This host's number among the hosts."""
    return world().node_rank


def cross_size() -> int:
    """The number of hosts."""
    return world().node_count


def is_homogeneous() -> bool:
    """True if all hosts have equally many processes."""
    return world().min(local_size()) == world().max(local_size())


def add_process_set(process_set: Union[ProcessSet, Sequence[int]]) -> ProcessSet:
    """Registers a process set. Done when all ranks have called it with the same ranks."""
    world()
    assert _sets is not None
    return _sets.add(process_set)


def remove_process_set(process_set: ProcessSet) -> bool:
    """Removes a process set. Done when all ranks have called it. Returns False if there is no such set."""
    world()
    assert _sets is not None
    return _sets.remove(process_set)


def _get_process_set_ids_and_ranks() -> Dict[int, List[int]]:
    """The ranks of the registered process sets, by number. Horovod's own tests use this name."""
    world()
    assert _sets is not None
    return {each.process_set_id: list(each.ranks) for each in _sets.all if each.process_set_id is not None}


def process_set_included(process_set: ProcessSet = global_process_set) -> bool:
    """True if this process belongs to the set."""
    return require_set(process_set).included()


def join(device: int = -1) -> int:
    """For a rank without more data: it takes part in the others' allreduces with zeros until all ranks have joined.

    Returns the rank that joined last, the same on all ranks. That rank's parameters are the newest, because a rank that
    has joined takes no steps: broadcast these parameters before the training continues. `device` has no meaning.
    """
    global _joins
    world()
    last = global_process_set.agenda.join(_gpus.own()).wait()
    _joins += 1
    return last


def joins() -> int:
    """How often all ranks have called join() together."""
    return _joins


def barrier(process_set: ProcessSet = global_process_set) -> None:
    """Returns when all ranks of the set have called it; does not wait for operations that are under way."""
    require_set(process_set).agenda.barrier(waits=True).wait()


def start_timeline(file_path: str, mark_cycles: bool = False) -> None:
    """All ranks begin to record, and all must call it. `mark_cycles` has no meaning, because there are no cycles."""
    world().start_timeline(file_path)


def stop_timeline() -> None:
    """Rank 0 writes the timeline of all ranks. All ranks must call it."""
    world().stop_timeline()


@atexit.register
def _at_exit() -> None:
    if _world is not None:
        end_with_script(_world, _end, "call hvd.join() after its loop", _worlds.leave)


def mpi_threads_supported() -> bool:
    """False: there is no MPI."""
    return False


def mpi_enabled() -> bool:
    """False: there is no MPI."""
    return False


def mpi_built() -> bool:
    """False: there is no MPI."""
    return False


def gloo_enabled() -> bool:
    """Returns True: scripts use it to ask whether they run without MPI."""
    return True


def gloo_built() -> bool:
    """Returns True: scripts use it to ask whether they run without MPI."""
    return True


def nccl_built() -> int:
    """1 if tensors of GPUs need not be copied, otherwise 0. Before init(), depends only on this process."""
    return int(cuda_built())


def ddl_built() -> bool:
    """False: IBM's DDL is not used."""
    return False


def ccl_built() -> bool:
    """False: Intel's oneCCL is not used."""
    return False


def cuda_built() -> bool:
    """nccl_built() as a bool."""
    return _gpus.enabled() if is_initialized() else _gpus.usable()


def rocm_built() -> bool:
    """False: the package does not use ROCm itself."""
    return False
