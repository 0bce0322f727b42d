"""Groups: ordered sets of ranks, and the collective operations between them."""
from __future__ import annotations

import ctypes
import math
import pickle
import threading
from typing import Any, Callable, Iterable, List, Optional, Sequence, Tuple

from . import arguments, work
from ._library import lib
from .arguments import counts_list, counts_of_ranks, factor, integer, op_code, text
from .errors import Mismatch
from .refusals import collective, receiving_from, reporting, sending_to
from .tensors import (NOTHING, View, empty_like, in_place_array, made_result, reduced_view, require_results, results,
                      view)
from .work import Owned, Work


class Group:
    """An ordered set of ranks. All its ranks call the same operations in the same order.

    A tensor is a numpy array, a torch tensor, a buffer or an object with __dlpack__ or __array_interface__; it is
    contiguous and in host memory. Verbs work in place unless `out` is given, and return the output. Each verb has a
    second form with _async, which returns a `Work` at once; the tensors must not be touched until the work is done. If
    a tensor or an argument cannot be used, a verb raises TypeError or ValueError before anything is sent. A tensor that
    is read-only, or does not declare that it may be written, can only be an input: then `out` must be given.

    A number (bool, int, float or a scalar of numpy) counts as a tensor of one element. It is not changed: the verb
    returns the result as a number of the same type. An int has 64 bits, and the average of ints is a float. If a sum or
    product of ints could need more bits, the verb raises OverflowError. Bools are reduced as in arrays: the sum of
    bools is their `any`.

    Attributes:
        rank: this process's number in the group, from 0. It is not a method: `world.rank`, not `world.rank()`.
        size: the number of ranks.
    """

    _what = "group"

    def __init__(self, owned: Owned) -> None:
        self._owned = owned
        # This lock is held while a receive is started, and while the handle is freed: threads of a backend of torch
        # receive from any rank.
        self._receiving = threading.RLock()
        self.rank: int = lib.anello_rank(self._handle)
        self.size: int = lib.anello_size(self._handle)

    def __repr__(self) -> str:
        return f"<anello.{type(self).__name__}: rank={self.rank}, size={self.size}>"

    @property
    def _handle(self) -> int:
        return self._owned.live(self._what)

    def _rank(self, which: str, value: Any) -> int:
        return arguments.rank(which, value, self.size)

    @property
    def members(self) -> List[int]:
        """The world ranks of the group's members, in order."""
        return [lib.anello_world_rank(self._handle, rank) for rank in range(self.size)]

    def rank_of(self, world_rank: int) -> Optional[int]:
        """The rank in the group of the process that has this rank in the world; None if it is not a member."""
        rank = lib.anello_rank_of(self._handle, integer("world_rank", world_rank, -2**31, 2**31 - 1))
        return None if rank < 0 else rank

    def group(self, members: Sequence[int]) -> "Group":
        """Makes the group of some ranks of this group. Only the members call. Does not communicate."""
        made, numbers = ctypes.c_void_p(), arguments.ranks("members", members, self.size)
        lib.anello_group_create(self._handle, numbers, len(numbers), ctypes.byref(made))
        return Group(Owned(made.value or 0, lib.anello_group_free))

    @collective
    def split(self, colour: int, key: int = 0) -> "Group":
        """Makes one group for each colour: the ranks that gave this colour, ordered by key. All ranks call; blocks."""
        made, least, most = ctypes.c_void_p(), -2**31, 2**31 - 1
        lib.anello_group_split(self._handle, integer("colour", colour, least, most), integer("key", key, least, most),
                               ctypes.byref(made))
        return Group(Owned(made.value or 0, lib.anello_group_free))

    @collective
    def allreduce_async(self, tensor: Any, op: str = "sum", *, out: Any = None, wire: Optional[str] = None,
                        prescale: float = 1.0, postscale: float = 1.0, name: Optional[str] = None) -> Work:
        """Starts allreduce(); see there."""
        options = arguments.options(name, wire, prescale, postscale)
        if isinstance(tensor, (list, tuple)):
            if out is not None:
                raise ValueError("a list is reduced in place: omit out=")
            views = [reduced_view(each, op, self.size) for each in tensor]
            return work.start(lib.anello_allreduce_list, self._handle, in_place_array(views), len(views), op_code(op),
                              ctypes.byref(options), result=results(tensor, views), keep=(views, options))
        given = reduced_view(tensor, op, self.size)
        made, result, keep = _placed(tensor, given, out)
        return work.start(lib.anello_allreduce, self._handle, given.input(), made, op_code(op), ctypes.byref(options),
                          result=result, keep=(given, keep, options))

    def allreduce(self, tensor: Any, op: str = "sum", **options: Any) -> Any:
        """out[i] = the reduction of tensor[i] over all ranks; in place without `out`.

        A list of tensors of one type is one operation, in place. If `tensor` is a number or a list of numbers, the
        result is returned.

        Args:
            op: sum, average, min, max, product, bit_and, bit_or or bit_xor.
            out: receives the result.
            wire: "f16" or "bf16": elements are rounded to this type and sent in it.
            prescale, postscale: finite factors for inputs and results, which must have floating-point types. Each rank
                may have its own prescale: the result is then a weighted sum. The postscale is the same on all ranks.
            name: appears in errors and diagnostics.
        """
        return self.allreduce_async(tensor, op, **options).wait()

    @collective
    def reduce_async(self, tensor: Any, root: int = 0, op: str = "sum", *, out: Any = None, wire: Optional[str] = None,
                     prescale: float = 1.0, postscale: float = 1.0, name: Optional[str] = None) -> Work:
        """Starts reduce(); see there."""
        options, root = arguments.options(name, wire, prescale, postscale), self._rank("root", root)
        given = reduced_view(tensor, op, self.size)
        made, result, keep = _placed(tensor, given, out)
        if given.value is not None and out is None and self.rank != root:
            result = _nothing
        return work.start(lib.anello_reduce, self._handle, given.input(), made, root, op_code(op),
                          ctypes.byref(options), result=result, keep=(given, keep, options))

    def reduce(self, tensor: Any, root: int = 0, op: str = "sum", **options: Any) -> Any:
        """On the root, sets out[i] to the reduction of tensor[i] over all ranks; without `out`, works in place.

        Options are those of allreduce(). If other ranks give a number, the verb returns None on them.
        """
        return self.reduce_async(tensor, root, op, **options).wait()

    @collective
    def broadcast_async(self, tensor: Any, root: int = 0, *, name: Optional[str] = None) -> Work:
        """Starts broadcast(); see there."""
        options, root = arguments.options(name), self._rank("root", root)
        if isinstance(tensor, (list, tuple)):
            views = [view(each) for each in tensor]
            return work.start(lib.anello_broadcast_list, self._handle, in_place_array(views), len(views), root,
                              ctypes.byref(options), result=results(tensor, views), keep=(views, options))
        given = view(tensor)
        return work.start(lib.anello_broadcast, self._handle, given.in_place(), root, ctypes.byref(options),
                          result=given.result(tensor), keep=(given, options))

    def broadcast(self, tensor: Any, root: int = 0, *, name: Optional[str] = None) -> Any:
        """Copies the root's elements to the same tensor of every other rank. A list (of one type) is one operation."""
        return self.broadcast_async(tensor, root, name=name).wait()

    @collective
    def allgather_async(self, tensor: Any, out: Any = None, *, counts: Optional[Sequence[int]] = None,
                        name: Optional[str] = None) -> Work:
        """Starts allgather(). Without `out` and `counts`, all ranks must give tensors of one shape."""
        given, options = view(tensor), arguments.options(name, counts=counts)
        made, result = self._gathered(tensor, given, out, counts)
        return work.start(lib.anello_allgather, self._handle, given.input(), made.output(), ctypes.byref(options),
                          result=result, keep=(given, made, options))

    def allgather(self, tensor: Any, out: Any = None, *, counts: Optional[Sequence[int]] = None,
                  name: Optional[str] = None) -> Any:
        """The tensors of all ranks, concatenated along the first dimension, on every rank.

        Without `out`, scalars of numpy are gathered into an array, and other numbers into a list. Raises Mismatch, on
        all ranks and before any tensor is sent, if the rows of two ranks have different numbers of elements.

        Args:
            out: receives the result; None: a new tensor, after the ranks have exchanged their first dimensions.
            counts: the number of elements of each rank's tensor, the same list on all ranks.
        """
        if out is None and counts is None:
            return self._allgather_rows(tensor, name)
        return self.allgather_async(tensor, out, counts=counts, name=name).wait()

    def _allgather_rows(self, tensor: Any, name: Optional[str]) -> Any:
        """Exchanges the first dimensions, then gathers. Wrong arguments of this rank raise before the exchange."""
        with reporting(self._refuse):
            given, _ = view(tensor), text("name", name)
            require_results(tensor)
        per_row = math.prod(given.shape[1:])
        numbers = self._numbers(given.rows, per_row)
        rows, others = numbers[::2], numbers[1::2]
        odd = next((rank for rank, each in enumerate(others) if each != others[0]), None)
        if odd is not None:
            raise Mismatch(f"allgather: a row has {others[0]} elements on rank 0, but {others[odd]} on rank {odd}: "
                           "only the first dimensions may differ", "mismatch")
        with reporting(self._refuse):
            made = empty_like(tensor, (sum(rows),) + tuple(given.shape[1:]))
        self.allgather(tensor, made, counts=[each * per_row for each in rows], name=name)
        return made_result(tensor, made)()

    def _gathered(self, tensor: Any, given: View, out: Any,
                  counts: Optional[Sequence[int]]) -> Tuple[View, Callable[[], Any]]:
        """The memory for all ranks' tensors, and a function that returns it as `out` or as a new tensor."""
        if out is not None:
            return view(out), lambda: out
        rows, per_row = given.rows * self.size, math.prod(given.shape[1:])
        if counts is not None:
            rows = sum(counts_list("counts", counts)) // per_row if per_row else 0
        new = empty_like(tensor, (rows,) + tuple(given.shape[1:]))
        return view(new), made_result(tensor, new)

    @collective
    def gather_async(self, tensor: Any, out: Any = None, root: int = 0, *, counts: Optional[Sequence[int]] = None,
                     name: Optional[str] = None) -> Work:
        """Starts gather(); see there."""
        given, options, root = view(tensor), arguments.options(name, counts=counts), self._rank("root", root)
        made, result = NOTHING, _nothing
        if self.rank == root:
            made, result = self._gathered(tensor, given, out, counts)
        return work.start(lib.anello_gather, self._handle, given.input(), made.output(), root, ctypes.byref(options),
                          result=result, keep=(given, made, options))

    def gather(self, tensor: Any, out: Any = None, root: int = 0, **options: Any) -> Any:
        """On the root, the tensors of all ranks, concatenated along the first dimension; other ranks get None.

        Ranks do not exchange their first dimensions (allgather() does): without `counts`, all tensors must have one
        shape.

        Args:
            out, counts: as in allgather().
        """
        return self.gather_async(tensor, out, root, **options).wait()

    @collective
    def scatter_async(self, tensor: Any, out: Any, root: int = 0, *, counts: Optional[Sequence[int]] = None,
                      name: Optional[str] = None) -> Work:
        """Starts scatter(); see there."""
        options, root = arguments.options(name, counts=counts), self._rank("root", root)
        given, made = view(tensor) if self.rank == root else NOTHING, view(out)
        return work.start(lib.anello_scatter, self._handle, given.input(), made.output(), root, ctypes.byref(options),
                          result=lambda: out, keep=(given, made, options))

    def scatter(self, tensor: Any, out: Any, root: int = 0, **options: Any) -> Any:
        """out = this rank's part of the root's tensor. Other ranks may give None as the tensor."""
        return self.scatter_async(tensor, out, root, **options).wait()

    @collective
    def reduce_scatter_async(self, tensor: Any, out: Any, op: str = "sum", *, counts: Optional[Sequence[int]] = None,
                             wire: Optional[str] = None, prescale: float = 1.0, postscale: float = 1.0,
                             name: Optional[str] = None) -> Work:
        """Starts reduce_scatter(); see there."""
        given, made = view(tensor), view(out)
        options = arguments.options(name, wire, prescale, postscale, counts)
        return work.start(lib.anello_reduce_scatter, self._handle, given.input(), made.output(), op_code(op),
                          ctypes.byref(options), result=lambda: out, keep=(given, made, options))

    def reduce_scatter(self, tensor: Any, out: Any, op: str = "sum", **options: Any) -> Any:
        """out = this rank's part of the reduction of all ranks' tensors."""
        return self.reduce_scatter_async(tensor, out, op, **options).wait()

    @collective
    def alltoall_async(self, tensor: Any, out: Any, *, send_counts: Optional[Sequence[int]] = None,
                       recv_counts: Optional[Sequence[int]] = None, name: Optional[str] = None) -> Work:
        """Starts alltoall(); see there."""
        given, made = view(tensor), view(out)
        options = arguments.options(name)
        lists = [counts_of_ranks("send_counts", send_counts, self.size),
                 counts_of_ranks("recv_counts", recv_counts, self.size)]
        return work.start(lib.anello_alltoall, self._handle, given.input(), made.output(), *lists,
                          ctypes.byref(options), result=lambda: out, keep=(given, made, lists, options))

    def alltoall(self, tensor: Any, out: Any, **options: Any) -> Any:
        """Sends part r of `tensor` to rank r; part r of `out` is the part that comes from rank r.

        Args:
            send_counts, recv_counts: the number of elements to each rank, and from each rank; None: equal parts.
        """
        return self.alltoall_async(tensor, out, **options).wait()

    def _refuse(self, reason: bytes) -> None:
        """Sends the reason why this rank does not make a collective call to the ranks that wait for it."""
        lib.anello_refuse(self._handle, reason)

    def send_async(self, tensor: Any, to: int, *, name: Optional[str] = None, consistency_token: int = 0) -> Work:
        """Starts send(); see there."""
        to = self._rank("to", to)
        with sending_to(self, to):
            given, options = view(tensor), arguments.options(name, consistency_token=consistency_token)
            return work.start(lib.anello_send, self._handle, given.input(), to, ctypes.byref(options), result=_nothing,
                              keep=(given, options))

    def send(self, tensor: Any, to: int, **options: Any) -> None:
        """Sends a tensor to one rank, which receives it with recv().

        Args:
            name: appears in errors and diagnostics.
            consistency_token: any number that the program chooses. If the receiver's number differs, the call raises
                Mismatch.
        """
        self.send_async(tensor, to, **options).wait()

    def recv_async(self, tensor: Any, source: int, *, name: Optional[str] = None, consistency_token: int = 0) -> Work:
        """Starts recv(); see there."""
        source = self._rank("source", source)
        with receiving_from(self, source), self._receiving:
            made, options = view(tensor), arguments.options(name, consistency_token=consistency_token)
            return work.start(lib.anello_recv, self._handle, made.output(), source, ctypes.byref(options),
                              result=lambda: tensor, keep=(made, options))

    def recv(self, tensor: Any, source: int, **options: Any) -> Any:
        """Receives the next tensor from `source`; its count and type must match. Options: see send()."""
        return self.recv_async(tensor, source, **options).wait()

    def probe(self, source: int) -> bool:
        """True if `source` has sent something to this rank that no recv has taken yet. Does not block.

        False while a recv from that rank is pending, because that recv takes the message. Raises the errors of recv().
        """
        arrived, source = ctypes.c_int(), self._rank("source", source)
        with self._receiving:
            lib.anello_probe(self._handle, source, ctypes.byref(arrived))
        return bool(arrived.value)

    def recv_arrived_async(self, tensor: Any, sources: Iterable[int], **options: Any) -> Optional[Tuple[int, Work]]:
        """Starts recv() from the first of some ranks that has sent something, and returns that rank. Does not block.

        Returns None if no rank has sent anything. No other thread can take the message in between.
        """
        with self._receiving:
            for source in sources:
                if self.probe(source):
                    return source, self.recv_async(tensor, source, **options)
        return None

    @collective
    def barrier_async(self, *, name: Optional[str] = None) -> Work:
        """Starts barrier()."""
        options = arguments.options(name)
        return work.start(lib.anello_barrier, self._handle, ctypes.byref(options), result=_nothing, keep=options)

    def barrier(self, *, name: Optional[str] = None) -> None:
        """Returns when every rank has called it."""
        self.barrier_async(name=name).wait()

    def average(self, value: float) -> float:
        """The mean of all ranks' numbers."""
        return self._number(value, "average")

    def sum(self, value: float) -> float:
        """The sum of all ranks' numbers."""
        return self._number(value, "sum")

    def min(self, value: float) -> float:
        """The smallest of all ranks' numbers."""
        return self._number(value, "min")

    def max(self, value: float) -> float:
        """The largest of all ranks' numbers."""
        return self._number(value, "max")

    @collective
    def _number(self, value: float, op: str) -> float:
        one, exact = (ctypes.c_double * 1)(factor("value", value)), arguments.index(value)
        if exact is not None and int(one[0]) != exact:
            raise OverflowError(f"{value} cannot be a float without rounding: use allreduce(), which accepts ints")
        self.allreduce(one, op)
        return one[0]

    def _numbers(self, *mine: int) -> List[int]:
        """The numbers of rank 0, then those of rank 1, and so on."""
        numbers = (ctypes.c_uint64 * (len(mine) * self.size))()
        self.allgather((ctypes.c_uint64 * len(mine))(*mine), numbers)
        return list(numbers)

    @collective
    def allgather_object(self, value: Any) -> List[Any]:
        """The values of all ranks, in order. They are pickled: use it only between ranks that trust each other."""
        mine = bytearray(pickle.dumps(value))
        sizes = self._numbers(len(mine))
        everything = bytearray(sum(sizes))
        self.allgather(mine, everything, counts=sizes)
        parts, at = [], 0
        for size in sizes:
            parts.append(pickle.loads(bytes(everything[at:at + size])))
            at += size
        return parts

    @collective
    def broadcast_object(self, value: Any = None, root: int = 0) -> Any:
        """The root's value on every rank; other ranks' values are ignored. It is pickled, as in allgather_object()."""
        root = self._rank("root", root)
        mine = bytearray(pickle.dumps(value)) if self.rank == root else bytearray()
        size = (ctypes.c_uint64 * 1)(len(mine))
        self.broadcast(size, root)
        if self.rank != root:
            mine = bytearray(size[0])
        self.broadcast(mine, root)
        return pickle.loads(bytes(mine))


def _placed(tensor: Any, given: View, out: Any) -> Tuple[Any, Callable[[], Any], View]:
    """The memory for a reduction's result, a function that returns the result, and a view that keeps the memory."""
    if out is None:
        return given.in_place(), given.result(tensor), given
    made = view(out)
    return made.output(), lambda: out, made


def _nothing() -> None:
    return None
