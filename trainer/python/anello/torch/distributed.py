"""A backend of torch.distributed: after `import anello.torch.distributed`, init_process_group("anello").

DistributedDataParallel and the verbs of torch.distributed then use Anello, for tensors in host memory. Ranks are
started by `anello run`, or by torchrun or anything else that torch understands.
"""
from __future__ import annotations

import atexit
import collections
import inspect
import os
import sys
import time
import weakref
from datetime import timedelta
from typing import Any, Callable, Dict, Iterable, List, Optional, Sequence

import torch
import torch.distributed as dist

from ..group import Group
from ..horovod.ending import PATIENCE_S, end_with_script
from ..refusals import collective, receiving_from, sending_to
from ..tensors import view
from ..work import Work
from ..world import World, init, init_through
from .distributed_buffers import Buffers, real, require_writable, write
from .distributed_reduction import reduction
from .distributed_work import AnyReceive, AnySource, Completer, Operation, unclaimed
from .shared_buckets import SharedBuckets


def _require_parts(verb: str, which: str, parts: Sequence[torch.Tensor], like: torch.Tensor, ranks: int) -> None:
    """Every rank has a part like the one that this rank gives, or gets."""
    if len(parts) != ranks:
        raise ValueError(f"{verb}: there are {len(parts)} {which} tensors, but the group has {ranks} ranks: give one "
                         "for each")
    for rank, part in enumerate(parts):
        if part.numel() != like.numel() or part.dtype != like.dtype:
            raise ValueError(f"{verb}: {which} tensor {rank} has {part.numel()} elements of {part.dtype}, but this "
                             f"rank's part {like.numel()} of {like.dtype}: all must be alike")
        if which == "output":
            require_writable(part)


def _tagged(tag: int) -> Dict[str, Any]:
    """Options of a transfer, whose tags are compared."""
    return {"name": f"tag {tag}", "consistency_token": tag & (2**64 - 1)} if tag else {}


def _only(tensors: Sequence[Any]) -> Any:
    if len(tensors) != 1:
        raise RuntimeError(f"one tensor for each rank is needed, not {len(tensors)}")
    return tensors[0]


class AnelloProcessGroup(dist.ProcessGroup):
    """The operations of torch.distributed over an Anello group. All ranks call them in the same order."""

    def __init__(self, group: Group, limit: timedelta) -> None:
        super().__init__(group.rank, group.size)
        self._group = group
        self._limit = limit
        self._shared = SharedBuckets(group.size) if _maps_memory(group) else None
        self._any_source = AnySource(group)
        self._completers: "Dict[Any, Completer]" = {}
        self._limited: "collections.deque[Operation]" = collections.deque()
        # Not at exit: handlers of the script may still use the group. The world ends after them, in _at_exit().
        weakref.finalize(self, _stop, self._completers).atexit = False

    def _refuse(self, reason: bytes) -> None:
        self._group._refuse(reason)

    def getBackendName(self) -> str:
        return "anello"

    def _start(self, verb: str, works: Sequence[Work], tensors: List[torch.Tensor], finish: Callable[[], None],
               order: Any = "collectives") -> Operation:
        """`order`: those of one order are done one after the other."""
        operation = Operation(verb, works, tensors, finish, self._limit, self._callbacks_of(order))
        if order == "collectives":  # a transfer may be meant for later
            operation.limit_future(self._limited)
        return self._add(operation, order)

    def _callbacks_of(self, order: Any) -> Completer:
        return self._completer(("callbacks of", order))

    def _completer(self, order: Any) -> Completer:
        # setdefault() alone is one step for other threads, but makes a completer each time.
        return self._completers.get(order) or self._completers.setdefault(order, Completer())

    def _add(self, operation: Operation, order: Any) -> Operation:
        self._completer(order).add(operation)
        unclaimed.operations.append(operation)
        return operation

    @collective
    def allreduce(self, tensors: List[torch.Tensor], opts: Any = None) -> Operation:
        buffers = Buffers()
        how = reduction(opts, tensors)
        if any(tensor.is_sparse for tensor in tensors):
            return self._allreduce_sparse(tensors, **how)
        shared = self._shared.find(tensors) if self._shared is not None else None
        if shared:
            return self._start("allreduce", [self._group.allreduce_async(shared, **how)], tensors, lambda: None)
        usable = [buffers.usable(tensor) for tensor in tensors]  # all, before one is sent
        works = [self._group.allreduce_async(tensor, **how) for tensor in usable]
        return self._start("allreduce", works, tensors, buffers.copy_back)

    def _allreduce_sparse(self, tensors: List[torch.Tensor], op: str, prescale: float) -> Operation:
        """The sum of sparse tensors: all ranks gather indices and values. Blocks."""
        if op != "sum":
            raise RuntimeError(f"sparse tensors can be summed only; {op} is for dense ones: call to_dense()")
        if prescale != 1.0 and not all(each.is_floating_point() or each.is_complex() for each in tensors):
            raise RuntimeError("PREMUL_SUM is for tensors of floating point: multiply integers before, and use SUM")
        for tensor in tensors:
            mine = tensor.detach().coalesce()
            scaled = mine.values() if prescale == 1.0 else mine.values() * prescale
            indices = self._group.allgather(mine.indices().t().contiguous())
            values = self._group.allgather(scaled.contiguous())
            # Not into a detached tensor, which would not share its indices.
            write(tensor, torch.sparse_coo_tensor(indices.t(), values, tensor.shape).coalesce())
        return self._start("allreduce", [], tensors, lambda: None)

    def allreduce_coalesced(self, tensors: List[torch.Tensor], opts: Any = None) -> Operation:
        return self.allreduce(tensors, opts)

    @collective
    def broadcast(self, tensors: List[torch.Tensor], opts: Any = None) -> Operation:
        buffers = Buffers()
        root = opts.rootRank if opts is not None else 0
        receives = self._group.rank != root
        usable = [buffers.usable(tensor, receives) for tensor in tensors]
        works = [self._group.broadcast_async(tensor, root) for tensor in usable]
        return self._start("broadcast", works, tensors, buffers.copy_back)

    @collective
    def allgather(self, outputs: List[List[torch.Tensor]], inputs: List[torch.Tensor], opts: Any = None) -> Operation:
        out, given = _only(outputs), Buffers().usable(_only(inputs), written=False)
        _require_parts("all_gather", "output", out, _only(inputs), self._group.size)
        gathered = given.new_empty((self._group.size,) + tuple(given.shape))

        work = self._group.allgather_async(given, gathered)
        return self._start("allgather", [work], out, lambda: _copy_parts(gathered, out))

    @collective
    def allgather_coalesced(self, outputs: List[List[torch.Tensor]], inputs: List[torch.Tensor],
                            opts: Any = None) -> Operation:
        """outputs[rank] has that rank's tensors."""
        for rank, tensors in enumerate(outputs):
            if len(tensors) != len(inputs):
                raise ValueError(f"all_gather: each rank gives {len(inputs)} tensors, but the outputs of rank {rank} "
                                 f"are {len(tensors)}")
        lists = [[tensors[k] for tensors in outputs] for k in range(len(inputs))]
        for parts, mine in zip(lists, inputs):
            _require_parts("all_gather", "output", parts, mine, self._group.size)
        given = [Buffers().usable(each, written=False) for each in inputs]
        gathered = [each.new_empty((self._group.size,) + tuple(each.shape)) for each in given]

        def finish() -> None:
            for parts, made in zip(lists, gathered):
                _copy_parts(made, parts)

        works = [self._group.allgather_async(each, made) for each, made in zip(given, gathered)]
        return self._start("allgather", works, [tensor for tensors in outputs for tensor in tensors], finish)

    @collective
    def gather(self, outputs: List[List[torch.Tensor]], inputs: List[torch.Tensor], opts: Any) -> Operation:
        given = Buffers().usable(_only(inputs), written=False)
        if self._group.rank != opts.rootRank:
            return self._start("gather", [self._group.gather_async(given, None, opts.rootRank)], [], lambda: None)
        out = _only(outputs)
        _require_parts("gather", "output", out, _only(inputs), self._group.size)
        gathered = given.new_empty((self._group.size,) + tuple(given.shape))
        work = self._group.gather_async(given, gathered, opts.rootRank)
        return self._start("gather", [work], out, lambda: _copy_parts(gathered, out))

    @collective
    def scatter(self, outputs: List[torch.Tensor], inputs: List[List[torch.Tensor]], opts: Any) -> Operation:
        buffers = Buffers()
        out = buffers.usable(_only(outputs))
        if self._group.rank == opts.rootRank:
            _require_parts("scatter", "input", _only(inputs), _only(outputs), self._group.size)
        given = _joined(_only(inputs)) if self._group.rank == opts.rootRank else None
        work = self._group.scatter_async(given, out, opts.rootRank)
        return self._start("scatter", [work], outputs, buffers.copy_back)

    @collective
    def alltoall(self, outputs: List[torch.Tensor], inputs: List[torch.Tensor], opts: Any = None) -> Operation:
        for output in outputs:
            require_writable(output)
        given, counts = _joined(inputs), [real(each).numel() for each in outputs]
        received = given.new_empty(sum(counts))
        work = self._group.alltoall_async(given, received, send_counts=[real(each).numel() for each in inputs],
                                          recv_counts=counts)
        return self._start("alltoall", [work], outputs, lambda: _copy_parts(received.split(counts), outputs))

    @collective
    def _allgather_base(self, output: torch.Tensor, given: torch.Tensor, opts: Any = None) -> Operation:
        buffers = Buffers()
        work = self._group.allgather_async(buffers.usable(given, written=False), buffers.usable(output))
        return self._start("allgather", [work], [output], buffers.copy_back)

    @collective
    def reduce(self, tensors: List[torch.Tensor], opts: Any) -> Operation:
        buffers = Buffers()
        tensor = buffers.usable(_only(tensors), self._group.rank == opts.rootRank)
        work = self._group.reduce_async(tensor, opts.rootRank, **reduction(opts, tensors))
        return self._start("reduce", [work], tensors, buffers.copy_back)

    @collective
    def reduce_scatter(self, outputs: List[torch.Tensor], inputs: List[List[torch.Tensor]],
                       opts: Any = None) -> Operation:
        buffers = Buffers()
        given = _joined(_only(inputs))
        counts = [real(each).numel() for each in _only(inputs)]
        out = buffers.usable(_only(outputs))
        work = self._group.reduce_scatter_async(given, out, counts=counts, **reduction(opts, outputs))
        return self._start("reduce_scatter", [work], outputs, buffers.copy_back)

    @collective
    def _reduce_scatter_base(self, output: torch.Tensor, given: torch.Tensor, opts: Any = None) -> Operation:
        buffers = Buffers()
        work = self._group.reduce_scatter_async(buffers.usable(given, written=False), buffers.usable(output),
                                                **reduction(opts, [output]))
        return self._start("reduce_scatter", [work], [output], buffers.copy_back)

    @collective
    def alltoall_base(self, output: torch.Tensor, given: torch.Tensor, output_splits: List[int],
                      input_splits: List[int], opts: Any = None) -> Operation:
        buffers = Buffers()
        counts: Dict[str, List[int]] = {}
        if output_splits or input_splits:
            counts = {"send_counts": self._elements(given, input_splits),
                      "recv_counts": self._elements(output, output_splits)}
        work = self._group.alltoall_async(buffers.usable(given, written=False), buffers.usable(output), **counts)
        return self._start("alltoall", [work], [output], buffers.copy_back)

    def _elements(self, tensor: torch.Tensor, splits: List[int]) -> List[int]:
        rows = splits or [tensor.shape[0] // self._group.size] * self._group.size
        return [each * real(tensor[:1]).numel() for each in rows]

    def send(self, tensors: List[torch.Tensor], to: int, tag: int = 0) -> Operation:
        """The receiver gets what a rank sends in the order in which it sends; a receive with another tag fails."""
        with sending_to(self._group, to):
            given = Buffers().usable(_only(tensors), written=False)
            work = self._group.send_async(given, to, **_tagged(tag))
        return self._start("send", [work], tensors, lambda: None, order=("send", to))

    def recv(self, tensors: List[torch.Tensor], source: int, tag: int = 0) -> Operation:
        buffers = Buffers()
        with receiving_from(self._group, source):
            work = self._group.recv_async(buffers.usable(_only(tensors)), source, **_tagged(tag))
        order = ("recv", source)
        callbacks = self._callbacks_of(order)
        return self._add(Operation("recv", [work], tensors, buffers.copy_back, self._limit, callbacks, source), order)

    def recv_anysource(self, tensors: List[torch.Tensor], tag: int = 0) -> Operation:
        """From whichever rank sends first; receives that name a rank and were started before get theirs."""
        if self._group.size == 1:
            raise RuntimeError("there is no other rank to receive from")
        buffers = Buffers()
        buffer = buffers.usable(_only(tensors))
        view(buffer).output()  # what the engine does not take is refused here, as by recv()
        order = "recv from any"
        receive = AnyReceive(self._any_source, buffer, _tagged(tag), tensors, buffers.copy_back, self._limit,
                             self._callbacks_of(order))
        return self._add(receive, order)

    def barrier(self, opts: Any = None) -> Operation:
        return self._start("barrier", [self._group.barrier_async()], [], lambda: None)


def _stop(completers: "Dict[Any, Completer]") -> None:
    for completer in completers.values():
        completer.stop()


def _joined(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """A list of tensors as one flat tensor."""
    return torch.cat([Buffers().usable(each, written=False).reshape(-1) for each in tensors])


def _copy_parts(parts: Iterable[torch.Tensor], tensors: Sequence[torch.Tensor]) -> None:
    for tensor, part in zip(tensors, parts):
        made = torch.view_as_complex(part.view(-1, 2)) if tensor.is_complex() else part
        write(tensor.detach(), made.view(tensor.shape))


_world: Optional[World] = None


def _maps_memory(group: Group) -> bool:
    """Whether the ranks of a group reduce tensors where they lie, if these lie in memory of the engine."""
    _, hosts, transport, _ = _world.layout.split() if _world else "1 1 tcp own".split()
    return 2 <= group.size <= 8 and (hosts, transport) == ("1", "memory")


def _make(store: Any, rank: int, size: int, timeout: timedelta) -> AnelloProcessGroup:
    """Called by torch.distributed on every member of a new group. The first one is the world."""
    global _world
    if dist.is_initialized() and _world is not None:
        return AnelloProcessGroup(_world.group(_world_ranks(store, rank, size, _world.rank)), timeout)
    _end(None)
    _world = init() if "ANELLO_RENDEZVOUS" in os.environ else _init_through(store, rank, size)
    if (_world.rank, _world.size) != (rank, size):
        raise RuntimeError(f"init_process_group was given rank {rank} of {size}, but this is rank {_world.rank} of "
                           f"{_world.size}: leave rank and world_size away, or give those of the launcher")
    return AnelloProcessGroup(_world, timeout)


def _world_ranks(store: Any, rank: int, size: int, world_rank: int) -> List[int]:
    """The world's numbers of the members of a new group, which know only their own."""
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

    return init_through(rank, size, store.set, get, "torch.distributed")


def _end(patience: Optional[float]) -> None:
    """Ends the world of this process, if there is one.

    Waits that many seconds for operations that are not done, and for the others (None: for ever); then TimeoutError.
    """
    global _world
    world, _world = _world, None
    if world is None:
        return Completer.stop_all()
    try:
        begun = time.monotonic()
        Completer.stop_all(patience)
        left = None if patience is None else max(0.0, patience - (time.monotonic() - begun))
        if world.failure() is None:
            world.barrier_async(name="the end of the script").wait(left)
            world.finish()
    finally:
        world.leave()


@atexit.register
def _at_exit() -> None:
    if _world is not None:
        end_with_script(_world, _end, 'put its loop into "with model.join():"')
    try:
        Completer.stop_all(PATIENCE_S)
    except TimeoutError:  # the world has ended, and with it all operations
        print("anello: a callback of an operation has not returned; the script ends without it", file=sys.stderr)


def _register() -> None:
    # From torch 2.1 on a backend names its devices; torch warns of one that does not.
    takes_devices = "devices" in inspect.signature(dist.Backend.register_backend).parameters
    dist.Backend.register_backend("anello", _make, **({"devices": ["cpu"]} if takes_devices else {}))


if not hasattr(dist.Backend, "ANELLO"):
    _register()
