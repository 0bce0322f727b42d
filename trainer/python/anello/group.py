"""Groups: ordered sets of ranks, and the collective operations between them."""
from __future__ import annotations

import ctypes
import pickle
import reprlib
import threading
from typing import Any, Iterable, List, Optional, Sequence, Tuple

from . import work
from ._library import C, Tensor, default, lib
from .tensors import NOTHING, View, empty_like, view
from .work import Owned, Work

_OPS = {"sum": C.SUM, "average": C.AVERAGE, "min": C.MIN, "max": C.MAX, "product": C.PRODUCT, "bit_and": C.BIT_AND,
        "bit_or": C.BIT_OR, "bit_xor": C.BIT_XOR}
_WIRES = {None: 0, "f16": C.F16, "bf16": C.BF16}


def op_code(op: str) -> int:
    """The number of a reduction. ValueError lists their names."""
    if op not in _OPS:
        raise ValueError(f"op must be one of {', '.join(_OPS)}, not {op!r}")
    return _OPS[op]


def wire_code(wire: Optional[str]) -> int:
    """The number of the type that elements travel as; 0: their own."""
    if wire not in _WIRES:
        raise ValueError(f"wire must be 'f16', 'bf16' or None, not {wire!r}")
    return _WIRES[wire]


def factor(which: str, value: float) -> float:
    """A factor as a float. TypeError names the argument."""
    is_complex = getattr(getattr(value, "dtype", None), "kind", "") == "c"  # numpy would only warn
    if not is_complex and not isinstance(value, (str, bytes, bytearray)):
        try:
            return float(value)
        except (TypeError, ValueError, OverflowError, RuntimeError):  # the last one is torch's
            pass
    raise TypeError(f"{which} must be a number, not {reprlib.repr(value)}")


def _options(name: Optional[str] = None, wire: Optional[str] = None, prescale: float = 1.0, postscale: float = 1.0,
             counts: Optional[Sequence[int]] = None, consistency_token: int = 0) -> Any:
    options = default("anello_options")
    options.name = name.encode() if name else None
    options.wire = wire_code(wire)
    options.prescale, options.postscale = factor("prescale", prescale), factor("postscale", postscale)
    options.consistency_token = consistency_token
    if counts is not None:
        options.held = counts_array(counts)  # Python keeps it as long as the options
        options.counts, options.counts_size = ctypes.addressof(options.held), len(counts)
    return options


def counts_array(counts: Sequence[int]) -> Any:
    """Numbers of elements as the library takes them."""
    return (ctypes.c_uint64 * len(counts))(*counts)


def counts_of_ranks(which: str, counts: Optional[Sequence[int]], ranks: int) -> Any:
    """One number for each rank, where the library reads as many as there are ranks; None if there are none."""
    if counts is None:
        return None
    if len(counts) != ranks:
        raise ValueError(f"{which} must have one number for each of the {ranks} ranks, not {len(counts)}: "
                         f"{reprlib.repr(list(counts))}")
    if any(count < 0 for count in counts):
        raise ValueError(f"{which} must not be negative: {reprlib.repr(list(counts))}")
    return counts_array(counts)


def tensor_array(views: Sequence[View]) -> Any:
    """A list of tensors as the library takes it."""
    return (Tensor * len(views))(*[each.output() for each in views])


class Group:
    """An ordered set of ranks. All its ranks call the same operations in the same order.

    A tensor is a numpy array, a torch tensor, a buffer or anything with __dlpack__; it lies in host memory and is
    contiguous. Verbs work in place unless `out` is given, and return the output. Each has a form with _async, which
    returns a `Work` at once; the tensors must not be touched until it is done.

    Attributes:
        rank: this process's number in the group, from 0. It is not a method: `world.rank`, not `world.rank()`.
        size: the number of ranks.
    """

    def __init__(self, owned: Owned) -> None:
        self._owned = owned
        # Held while a receive is started, and while the handle is freed: threads of a backend receive from any rank.
        self._receiving = threading.RLock()
        self.rank: int = lib.anello_rank(self._handle)
        self.size: int = lib.anello_size(self._handle)

    def __repr__(self) -> str:
        return f"<anello.{type(self).__name__}: rank={self.rank}, size={self.size}>"

    @property
    def _handle(self) -> int:
        if not self._owned.handle:
            raise ValueError("the group has ended")
        return self._owned.handle

    @property
    def members(self) -> List[int]:
        """The world's numbers of the group's ranks, in order."""
        return [lib.anello_world_rank(self._handle, rank) for rank in range(self.size)]

    def rank_of(self, world_rank: int) -> Optional[int]:
        """The group's number of a rank of the world; None if it is no member."""
        rank = lib.anello_rank_of(self._handle, world_rank)
        return None if rank < 0 else rank

    def group(self, members: Sequence[int]) -> "Group":
        """The group of some ranks of this one. Only the members call. Does not communicate."""
        made = ctypes.c_void_p()
        lib.anello_group_create(self._handle, (ctypes.c_int * len(members))(*members), len(members),
                                ctypes.byref(made))
        return Group(Owned(made.value or 0, lib.anello_group_free))

    def split(self, colour: int, key: int = 0) -> "Group":
        """Ranks that give the same colour form a group, ordered by key. All ranks call; blocks."""
        made = ctypes.c_void_p()
        lib.anello_group_split(self._handle, colour, key, ctypes.byref(made))
        return Group(Owned(made.value or 0, lib.anello_group_free))

    def allreduce_async(self, tensor: Any, op: str = "sum", *, out: Any = None, wire: Optional[str] = None,
                        prescale: float = 1.0, postscale: float = 1.0, name: Optional[str] = None) -> Work:
        """Starts allreduce(); see there."""
        options = _options(name, wire, prescale, postscale)
        if isinstance(tensor, (list, tuple)):
            if out is not None:
                raise ValueError("a list is reduced in place: leave out= away")
            views = [view(each) for each in tensor]
            return work.start(lib.anello_allreduce_list, self._handle, tensor_array(views), len(views), op_code(op),
                              ctypes.byref(options), result=tensor, keep=(views, options))
        out = tensor if out is None else out
        given, made = view(tensor), view(out)
        return work.start(lib.anello_allreduce, self._handle, given.input(), made.output(), op_code(op),
                          ctypes.byref(options), result=out, keep=(given, made, options))

    def allreduce(self, tensor: Any, op: str = "sum", **options: Any) -> Any:
        """out[i] = the reduction of tensor[i] over all ranks; in place without `out`.

        A list of tensors of one type is one operation, in place.

        Args:
            op: sum, average, min, max, product, bit_and, bit_or or bit_xor.
            out: where the result goes.
            wire: "f16" or "bf16": elements travel rounded to this type.
            prescale, postscale: finite factors for inputs and results, of floating-point types. Each rank may have
                a prescale of its own, which makes a weighted sum; the postscale is the same on all ranks.
            name: appears in errors and diagnostics.
        """
        return self.allreduce_async(tensor, op, **options).wait()

    def reduce_async(self, tensor: Any, root: int = 0, op: str = "sum", *, out: Any = None, wire: Optional[str] = None,
                     prescale: float = 1.0, postscale: float = 1.0, name: Optional[str] = None) -> Work:
        """Starts reduce(); see there."""
        options = _options(name, wire, prescale, postscale)
        out = tensor if out is None else out
        given, made = view(tensor), view(out)
        return work.start(lib.anello_reduce, self._handle, given.input(), made.output(), root, op_code(op),
                          ctypes.byref(options), result=out, keep=(given, made, options))

    def reduce(self, tensor: Any, root: int = 0, op: str = "sum", **options: Any) -> Any:
        """On the root: out[i] = the reduction of tensor[i] over all ranks; in place without `out`.

        Options are those of allreduce().
        """
        return self.reduce_async(tensor, root, op, **options).wait()

    def broadcast_async(self, tensor: Any, root: int = 0, *, name: Optional[str] = None) -> Work:
        """Starts broadcast(); see there."""
        options = _options(name)
        if isinstance(tensor, (list, tuple)):
            views = [view(each) for each in tensor]
            return work.start(lib.anello_broadcast_list, self._handle, tensor_array(views), len(views), root,
                              ctypes.byref(options), result=tensor, keep=(views, options))
        given = view(tensor)
        return work.start(lib.anello_broadcast, self._handle, given.output(), root, ctypes.byref(options),
                          result=tensor, keep=(given, options))

    def broadcast(self, tensor: Any, root: int = 0, *, name: Optional[str] = None) -> Any:
        """Copies the root's elements to the same tensor of every other rank; or a list of tensors of one type."""
        return self.broadcast_async(tensor, root, name=name).wait()

    def allgather_async(self, tensor: Any, out: Any = None, *, counts: Optional[Sequence[int]] = None,
                        name: Optional[str] = None) -> Work:
        """Starts allgather(). Without `out` and `counts`, all ranks must give tensors of one shape."""
        given = view(tensor)
        if out is None:
            out = empty_like(tensor, self._gathered_shape(given, counts))
        made = view(out)
        options = _options(name, counts=counts)
        return work.start(lib.anello_allgather, self._handle, given.input(), made.output(), ctypes.byref(options),
                          result=out, keep=(given, made, options))

    def allgather(self, tensor: Any, out: Any = None, *, counts: Optional[Sequence[int]] = None,
                  name: Optional[str] = None) -> Any:
        """The tensors of all ranks, one behind the other along the first dimension, on every rank.

        Args:
            out: where the result goes; None: a new tensor, for which the ranks first exchange their first dimensions.
            counts: the number of elements of each rank's tensor, the same list on all ranks.
        """
        if out is None and counts is None:
            counts = self._numbers(view(tensor).count)
        return self.allgather_async(tensor, out, counts=counts, name=name).wait()

    def _gathered_shape(self, given: View, counts: Optional[Sequence[int]]) -> Sequence[int]:
        per_row = _per_row(given)
        total = sum(counts) if counts is not None else given.count * self.size
        return (total // per_row if per_row else 0,) + tuple(given.shape[1:])

    def gather_async(self, tensor: Any, out: Any = None, root: int = 0, *, counts: Optional[Sequence[int]] = None,
                     name: Optional[str] = None) -> Work:
        """Starts gather(); see there."""
        given = view(tensor)
        if self.rank == root and out is None:
            out = empty_like(tensor, self._gathered_shape(given, counts))
        made = view(out) if self.rank == root else NOTHING
        options = _options(name, counts=counts)
        return work.start(lib.anello_gather, self._handle, given.input(), made.output(), root, ctypes.byref(options),
                          result=out if self.rank == root else None, keep=(given, made, options))

    def gather(self, tensor: Any, out: Any = None, root: int = 0, **options: Any) -> Any:
        """As allgather, on the root only; other ranks get None."""
        return self.gather_async(tensor, out, root, **options).wait()

    def scatter_async(self, tensor: Any, out: Any, root: int = 0, *, counts: Optional[Sequence[int]] = None,
                      name: Optional[str] = None) -> Work:
        """Starts scatter(); see there."""
        given = view(tensor) if self.rank == root else NOTHING
        made = view(out)
        options = _options(name, counts=counts)
        return work.start(lib.anello_scatter, self._handle, given.input(), made.output(), root, ctypes.byref(options),
                          result=out, keep=(given, made, options))

    def scatter(self, tensor: Any, out: Any, root: int = 0, **options: Any) -> Any:
        """out = this rank's part of the root's tensor. Other ranks may give None as the tensor."""
        return self.scatter_async(tensor, out, root, **options).wait()

    def reduce_scatter_async(self, tensor: Any, out: Any, op: str = "sum", *, counts: Optional[Sequence[int]] = None,
                             wire: Optional[str] = None, prescale: float = 1.0, postscale: float = 1.0,
                             name: Optional[str] = None) -> Work:
        """Starts reduce_scatter(); see there."""
        given, made = view(tensor), view(out)
        options = _options(name, wire, prescale, postscale, counts)
        return work.start(lib.anello_reduce_scatter, self._handle, given.input(), made.output(), op_code(op),
                          ctypes.byref(options), result=out, keep=(given, made, options))

    def reduce_scatter(self, tensor: Any, out: Any, op: str = "sum", **options: Any) -> Any:
        """out = the reduction over all ranks of this rank's part of their tensors."""
        return self.reduce_scatter_async(tensor, out, op, **options).wait()

    def alltoall_async(self, tensor: Any, out: Any, *, send_counts: Optional[Sequence[int]] = None,
                       recv_counts: Optional[Sequence[int]] = None, name: Optional[str] = None) -> Work:
        """Starts alltoall(); see there."""
        given, made = view(tensor), view(out)
        options = _options(name)
        lists = [counts_of_ranks("send_counts", send_counts, self.size),
                 counts_of_ranks("recv_counts", recv_counts, self.size)]
        return work.start(lib.anello_alltoall, self._handle, given.input(), made.output(), *lists,
                          ctypes.byref(options), result=out, keep=(given, made, lists, options))

    def alltoall(self, tensor: Any, out: Any, **options: Any) -> Any:
        """Part r of out = this rank's part of the tensor of rank r.

        Args:
            send_counts, recv_counts: the number of elements for and from each rank; None: equal parts.
        """
        return self.alltoall_async(tensor, out, **options).wait()

    def send_async(self, tensor: Any, to: int, *, name: Optional[str] = None, consistency_token: int = 0) -> Work:
        """Starts send(); see there."""
        given, options = view(tensor), _options(name, consistency_token=consistency_token)
        return work.start(lib.anello_send, self._handle, given.input(), to, ctypes.byref(options), result=None,
                          keep=(given, options))

    def send(self, tensor: Any, to: int, **options: Any) -> None:
        """Sends a tensor to one rank, which receives it with recv().

        Args:
            name: appears in errors and diagnostics.
            consistency_token: any number of the program's own; Mismatch if the receiver's differs.
        """
        self.send_async(tensor, to, **options).wait()

    def recv_async(self, tensor: Any, source: int, *, name: Optional[str] = None, consistency_token: int = 0) -> Work:
        """Starts recv(); see there."""
        made, options = view(tensor), _options(name, consistency_token=consistency_token)
        with self._receiving:
            return work.start(lib.anello_recv, self._handle, made.output(), source, ctypes.byref(options),
                              result=tensor, keep=(made, options))

    def recv(self, tensor: Any, source: int, **options: Any) -> Any:
        """Receives what `source` sent to this rank; count and type must be the same. Options are those of send()."""
        return self.recv_async(tensor, source, **options).wait()

    def probe(self, source: int) -> bool:
        """Whether `source` has sent something to this rank that no recv has taken yet. Does not block.

        While a recv from that rank is pending, what comes is for that: False. Raises as recv() does.
        """
        arrived = ctypes.c_int()
        with self._receiving:
            lib.anello_probe(self._handle, source, ctypes.byref(arrived))
        return bool(arrived.value)

    def recv_arrived_async(self, tensor: Any, sources: Iterable[int], **options: Any) -> Optional[Tuple[int, Work]]:
        """Starts recv() from the first of some ranks that has sent something, and returns which. Does not block.

        None if none of them has. No other thread can take it in between.
        """
        with self._receiving:
            for source in sources:
                if self.probe(source):
                    return source, self.recv_async(tensor, source, **options)
        return None

    def barrier_async(self, *, name: Optional[str] = None) -> Work:
        """Starts barrier()."""
        options = _options(name)
        return work.start(lib.anello_barrier, self._handle, ctypes.byref(options), result=None, keep=options)

    def barrier(self, *, name: Optional[str] = None) -> None:
        """Returns when every rank has called it."""
        self.barrier_async(name=name).wait()

    def average(self, value: float) -> float:
        """The mean of a number over all ranks."""
        return self._number(value, "average")

    def sum(self, value: float) -> float:
        """The sum of a number over all ranks."""
        return self._number(value, "sum")

    def min(self, value: float) -> float:
        """The least of a number over all ranks."""
        return self._number(value, "min")

    def max(self, value: float) -> float:
        """The greatest of a number over all ranks."""
        return self._number(value, "max")

    def _number(self, value: float, op: str) -> float:
        one = (ctypes.c_double * 1)(value)
        self.allreduce(one, op)
        return one[0]

    def _numbers(self, mine: int) -> List[int]:
        numbers = (ctypes.c_uint64 * self.size)()
        self.allgather((ctypes.c_uint64 * 1)(mine), numbers)
        return list(numbers)

    def allgather_object(self, value: Any) -> List[Any]:
        """What each rank gave, in rank order. Values are pickled: use it between ranks that trust each other."""
        mine = bytearray(pickle.dumps(value))
        sizes = self._numbers(len(mine))
        everything = bytearray(sum(sizes))
        self.allgather(mine, everything, counts=sizes)
        parts, at = [], 0
        for size in sizes:
            parts.append(pickle.loads(bytes(everything[at:at + size])))
            at += size
        return parts

    def broadcast_object(self, value: Any = None, root: int = 0) -> Any:
        """The root's value on every rank; the others' is ignored. Pickled, as in allgather_object."""
        mine = bytearray(pickle.dumps(value)) if self.rank == root else bytearray()
        size = (ctypes.c_uint64 * 1)(len(mine))
        self.broadcast(size, root)
        if self.rank != root:
            mine = bytearray(size[0])
        self.broadcast(mine, root)
        return pickle.loads(bytes(mine))


def _per_row(given: View) -> int:
    """Elements in one row, which also a tensor without rows has."""
    count = 1
    for size in given.shape[1:]:
        count *= size
    return count

