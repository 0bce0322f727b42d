"""A group of torch.distributed over a group of the engine."""
from __future__ import annotations

import collections
import weakref
from datetime import timedelta
from typing import Any, Callable, Dict, Iterable, List, Sequence

import torch

from ..group import Group
from ..refusals import collective, receiving_from, sending_to
from ..tensors import view
from ..work import Work
from .distributed_buffers import Buffers, plain, require_writable, write, write_plain
from .distributed_compiled import called_as_is
from .distributed_identity import Identity
from .distributed_names import under_all_names
from .distributed_reduction import reduction
from .distributed_work import AnyReceive, AnySource, Completer, Operation, unclaimed


def _require_parts(verb: str, which: str, parts: Sequence[torch.Tensor], like: torch.Tensor, ranks: int,
                   any_size: Sequence[int] = ()) -> None:
    """Raises ValueError unless every rank's part is like this rank's. Parts of the ranks in `any_size` may differ in
    size."""
    if len(parts) != ranks:
        raise ValueError(f"{verb}: there are {len(parts)} {which} tensors, but the group has {ranks} ranks: give one "
                         "tensor for each rank")
    for rank, part in enumerate(parts):
        if part.numel() != like.numel() and rank not in any_size or part.dtype != like.dtype:
            raise ValueError(f"{verb}: {which} tensor {rank} has {part.numel()} elements of {part.dtype}, but this "
                             f"rank's part {like.numel()} of {like.dtype}: all must be alike")
        if which == "output":
            require_writable(part)


def _tagged(tag: int) -> Dict[str, Any]:
    """Options of a transfer that compares tags."""
    return {"name": f"tag {tag}", "consistency_token": tag & (2**64 - 1)} if tag else {}


def _only(tensors: Sequence[Any]) -> Any:
    if len(tensors) != 1:
        raise RuntimeError(f"one tensor for each rank is needed, not {len(tensors)}")
    return tensors[0]


@under_all_names
@called_as_is
class AnelloProcessGroup(Identity):
    """The operations of torch.distributed over an Anello group. All ranks call them in the same order."""

    def __init__(self, group: Group, limit: timedelta, store: Any, maps_memory: bool) -> None:
        """`maps_memory`: the world's ranks reduce tensors in place when the tensors lie in memory of the engine."""
        super().__init__(group.rank, group.size, limit, store)
        self._group = group
        self._maps_memory = maps_memory
        self._any_source = AnySource(group)
        self._completers: "Dict[Any, Completer]" = {}
        self._limited: "collections.deque[Operation]" = collections.deque()
        # The finalizer must not run at exit, because exit handlers of the script may still use the group. The world
        # ends after these handlers, in _at_exit().
        weakref.finalize(self, _stop, self._completers).atexit = False

    def _part(self, ranks: List[int], limit: timedelta, store: Any) -> "AnelloProcessGroup":
        return AnelloProcessGroup(self._group.group(ranks), limit, store, self._maps_memory)

    def _refuse(self, reason: bytes) -> None:
        self._group._refuse(reason)

    @property
    def maps_memory(self) -> bool:
        """True if the group's ranks reduce tensors in place when the tensors lie in memory of the engine."""
        return self._maps_memory and 2 <= self._group.size <= 8

    def average_in_memory(self, memory: Any, tensors: List[torch.Tensor]) -> Operation:
        """Starts the average of a tensor whose memory is also mapped by the engine. Does not block."""
        return self._start("allreduce", [self._group.allreduce_async(memory, "average")], tensors, lambda: None)

    def _start(self, verb: str, works: Sequence[Work], tensors: List[torch.Tensor], finish: Callable[[], None],
               order: Any = "collectives") -> Operation:
        """`order`: operations with the same `order` complete one after the other."""
        operation = Operation(verb, works, tensors, finish, self._limit, self._callbacks_of(order))
        if order == "collectives":  # not for a transfer: the program may wait for it much later
            operation.limit_future(self._limited)
        return self._add(operation, order)

    def _callbacks_of(self, order: Any) -> Completer:
        return self._completer(("callbacks of", order))

    def _completer(self, order: Any) -> Completer:
        # setdefault() alone would also be atomic, but it would make a completer in each call.
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
        usable = [buffers.usable(tensor) for tensor in tensors]  # checks all before any is sent
        works = [self._group.allreduce_async(tensor, **how) for tensor in usable]
        return self._start("allreduce", works, tensors, buffers.copy_back)

    def _allreduce_sparse(self, tensors: List[torch.Tensor], op: str, prescale: float) -> Operation:
        """The sum of sparse tensors: all ranks gather indices and values. Blocks."""
        if op != "sum":
            raise RuntimeError(f"sparse tensors can only be summed; for {op}, call to_dense()")
        if prescale != 1.0 and not all(each.is_floating_point() or each.is_complex() for each in tensors):
            raise RuntimeError("PREMUL_SUM is for floating-point tensors: multiply integers yourself, and use SUM")
        for tensor in tensors:
            mine = tensor.detach().coalesce()
            scaled = mine.values() if prescale == 1.0 else mine.values() * prescale
            indices = self._group.allgather(mine.indices().t().contiguous())
            values = self._group.allgather(scaled.contiguous())
            # The result is not written into a detached tensor, because such a tensor would not share the indices.
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
        """Gathers tensors. The tensors of the ranks may differ in size if all ranks give outputs of the right sizes."""
        out, mine = _only(outputs), _only(inputs)
        given = Buffers().usable(mine, written=False)
        counts = [plain(each).numel() for each in out]
        differ = len(set(counts)) > 1
        others = [rank for rank in range(self._group.size) if rank != self._group.rank] if differ else []
        _require_parts("all_gather", "output", out, mine, self._group.size, others)
        gathered = given.new_empty(sum(counts))
        work = self._group.allgather_async(given, gathered, counts=counts if differ else None)
        return self._start("allgather", [work], out, lambda: _copy_parts(gathered.split(counts), out))

    @collective
    def allgather_coalesced(self, outputs: List[List[torch.Tensor]], inputs: List[torch.Tensor],
                            opts: Any = None) -> Operation:
        """outputs[rank] receives that rank's tensors."""
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
        given, counts = _joined(inputs), [plain(each).numel() for each in outputs]
        received = given.new_empty(sum(counts))
        work = self._group.alltoall_async(given, received, send_counts=[plain(each).numel() for each in inputs],
                                          recv_counts=counts)
        return self._start("alltoall", [work], outputs, lambda: _copy_parts(received.split(counts), outputs))

    @collective
    def all_gather_single(self, output: torch.Tensor, given: torch.Tensor, opts: Any = None) -> Operation:
        return self._all_gather_singles([output], [given])

    @collective
    def all_gather_single_coalesced(self, outputs: List[torch.Tensor], inputs: List[torch.Tensor],
                                    opts: Any = None) -> Operation:
        return self._all_gather_singles(outputs, inputs)

    def _all_gather_singles(self, outputs: List[torch.Tensor], inputs: List[torch.Tensor]) -> Operation:
        buffers = Buffers()
        pairs = [(buffers.usable(given, written=False), buffers.usable(output)) for given, output in zip(inputs, outputs)]
        works = [self._group.allgather_async(given, output) for given, output in pairs]
        return self._start("allgather", works, outputs, buffers.copy_back)

    @collective
    def gather_single(self, output: torch.Tensor, given: torch.Tensor, opts: Any) -> Operation:
        buffers, receives = Buffers(), self._group.rank == opts.rootRank
        out = buffers.usable(output) if receives else None
        work = self._group.gather_async(buffers.usable(given, written=False), out, opts.rootRank)
        return self._start("gather", [work], [output] if receives else [], buffers.copy_back)

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
        counts = [plain(each).numel() for each in _only(inputs)]
        out = buffers.usable(_only(outputs))
        work = self._group.reduce_scatter_async(given, out, counts=counts, **reduction(opts, outputs))
        return self._start("reduce_scatter", [work], outputs, buffers.copy_back)

    @collective
    def reduce_scatter_single(self, output: torch.Tensor, given: torch.Tensor, opts: Any = None) -> Operation:
        return self._reduce_scatter_singles([output], [given], opts)

    @collective
    def reduce_scatter_single_coalesced(self, outputs: List[torch.Tensor], inputs: List[torch.Tensor],
                                        opts: Any = None) -> Operation:
        return self._reduce_scatter_singles(outputs, inputs, opts)

    def _reduce_scatter_singles(self, outputs: List[torch.Tensor], inputs: List[torch.Tensor], opts: Any) -> Operation:
        buffers, how = Buffers(), reduction(opts, outputs)
        pairs = [(buffers.usable(given, written=False), buffers.usable(output)) for given, output in zip(inputs, outputs)]
        works = [self._group.reduce_scatter_async(given, output, **how) for given, output in pairs]
        return self._start("reduce_scatter", works, outputs, buffers.copy_back)

    @collective
    def all_to_all_single(self, output: torch.Tensor, given: torch.Tensor, output_splits: List[int],
                          input_splits: List[int], opts: Any = None) -> Operation:
        buffers = Buffers()
        counts: Dict[str, Any] = {}
        if output_splits or input_splits:
            counts = {"send_counts": self._elements(given, input_splits),
                      "recv_counts": self._elements(output, output_splits)}
        work = self._group.alltoall_async(buffers.usable(given, written=False), buffers.usable(output), **counts)
        return self._start("alltoall", [work], [output], buffers.copy_back)

    def _elements(self, tensor: torch.Tensor, splits: List[int]) -> List[int]:
        rows = splits or [tensor.shape[0] // self._group.size] * self._group.size
        return [each * plain(tensor[:1]).numel() for each in rows]

    def send(self, tensors: List[torch.Tensor], to: int, tag: int = 0) -> Operation:
        """A rank's messages arrive in the order in which it sends them; a receive with another tag fails."""
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
        """Receives from the rank that sends first. If an earlier receive names a rank, it takes the messages of that
        rank first."""
        if self._group.size == 1:
            raise RuntimeError("there is no other rank to receive from")
        buffers = Buffers()
        buffer = buffers.usable(_only(tensors))
        view(buffer).output()  # as in recv(), refuses tensors that the engine does not accept
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
        write_plain(tensor.detach(), part)
