"""Named operations: the ranks of a group submit them in any order and from any thread.

An operation starts when all ranks have submitted it. If their descriptions differ, it raises `Mismatch` on every rank,
and the world goes on.
"""
from __future__ import annotations

import ctypes
import functools
import math
from typing import Any, Callable, List, NamedTuple, Optional, Sequence, Tuple, cast

from . import arguments, dlpack
from ._library import C, default, header, lib
from .arguments import counts_array, counts_of_ranks, factor, op_code, text, wire_code
from .group import Group
from .refusals import Method, report
from .scalars import for_reduction
from .tensors import View, array_over, empty_like, is_torch, kind_of, made_result, require_results, results, view
from .work import Owned, Pending

_Array = header.structs["anello_array"]
_shape = functools.lru_cache(maxsize=1024)(counts_array)  # a program sends tensors of the same shapes again and again
# The options of most calls, without `waits` and with it. No call changes them, so all calls can share them.
_PLAIN_OPTIONS = [default("anello_named_options"), default("anello_named_options")]
_PLAIN_OPTIONS[1].waits = 1


class Gpu(NamedTuple):
    """The GPU whose memory holds the tensors, and the cudaStream_t on which work that makes them is queued."""

    device: int
    stream: int


class Operation(Pending):
    """A handle of a named operation. wait() returns result(operation)."""

    def __init__(self, handle: Optional[int], keep: Any, result: Callable[["Operation"], Any]) -> None:
        self._make_result = result
        super().__init__(Owned(handle, lib.anello_named_free), keep)

    def _is_done(self) -> bool:
        return bool(lib.anello_named_done(self._owned.handle))

    def _wait_for(self, limit_ms: int) -> int:
        return lib.anello_named_wait(self._owned.handle, limit_ms)

    def _wait_for_ever(self) -> int:
        return self._wait_for(2**64 - 1)

    def _result(self) -> Any:
        return self._make_result(self)

    def describe(self) -> str:
        """Describes in one line why the operation is not done."""
        line = ctypes.c_char_p()
        lib.anello_named_describe(self._owned.handle, ctypes.byref(line))
        return (line.value or b"").decode("utf-8", "replace")

    def _outputs(self, like: Sequence[Any]) -> List[Any]:
        """The tensors that the operation made. They use the library's memory, which lives as long as these tensors."""
        made = []
        for index, each in enumerate(like):
            array = _Array()
            lib.anello_named_output(self._owned.handle, index, ctypes.byref(array))
            shape = _numbers(array.shape, array.dimensions)
            if math.prod(shape) == 0:
                made.append(made_result(each, empty_like(each, shape))())
            elif is_torch(each):
                made.append(self._torch_output(index))
            else:
                made.append(array_over(each, array.data, shape, self._owned))
        return made

    def _bytes_of_ranks(self, ranks: int) -> List[bytes]:
        made, parts, at = _Array(), [], 0
        lib.anello_named_output(self._owned.handle, 0, ctypes.byref(made))
        for count in self.rows(0, ranks):
            parts.append(ctypes.string_at(made.data + at, count) if count else b"")
            at += count
        return parts

    def _torch_output(self, index: int) -> Any:
        managed = ctypes.c_void_p()
        lib.anello_named_dlpack(self._owned.handle, index, ctypes.byref(managed))
        return dlpack.to_torch(managed.value or 0)

    def rows(self, index: int, ranks: int) -> Tuple[int, ...]:
        """The rows of each rank in output `index` of a complete allgather or alltoall."""
        rows = ctypes.c_void_p()
        lib.anello_named_rows(self._owned.handle, index, ctypes.byref(rows))
        return _numbers(rows.value, ranks)

    def _last(self) -> int:
        rank = ctypes.c_int()
        lib.anello_named_last(self._owned.handle, ctypes.byref(rank))
        return rank.value


def _submits(verb: str) -> Callable[[Method], Method]:
    """Makes a function that submits an operation of this verb a method of an agenda."""

    def of(method: Method) -> Method:

        @functools.wraps(method)
        def call(self: "Agenda", *arguments: Any, name: Optional[str] = None, **options: Any) -> Operation:
            try:
                return method(self, *arguments, name=name, **options)
            except Exception as error:
                self.refuse(verb, name, error)
                raise

        return cast(Method, call)

    return of


class Agenda:
    """The named operations of a group, with connections of their own. All ranks create their agendas in the same order.

    Every verb returns an `Operation`. With `waits=True` the caller waits for it at once, which is faster. A list of
    tensors is one operation: either all tensors are processed, or none.
    """

    def __init__(self, group: Group) -> None:
        handle = ctypes.c_void_p()
        lib.anello_agenda_create(group._handle, ctypes.byref(handle))
        self.group = group
        self._owned = Owned(handle.value, lib.anello_agenda_free)

    def use_gpus(self, world: Any) -> None:
        """Allows tensors in GPU memory in later allreduces and broadcasts. All ranks of the group call."""
        lib.anello_agenda_use_gpus(self._owned.live("agenda"), world._world.live("world"))

    @property
    def handle(self) -> int:
        """The agenda as anello_agenda*, for other libraries that submit operations."""
        return self._owned.live("agenda")

    def free(self) -> None:
        """Ends the agenda for this rank. All ranks should pass a barrier before they call it."""
        self._owned.free()

    @_submits("allreduce")
    def allreduce(self, inputs: Sequence[Any], outputs: Optional[Sequence[Any]] = None, op: str = "sum", *,
                  name: Optional[str] = None, prescale: float = 1.0, postscale: float = 1.0,
                  wire: Optional[str] = None, waits: bool = False, gpu: Optional[Gpu] = None) -> Operation:
        """Sets outputs[k] to the reduction of inputs[k] over all ranks. Without outputs, the results replace the
        inputs.

        Args:
            gpu: all tensors are tensors of torch in the memory of this GPU; see use_gpus().
        """
        if outputs is not None and len(outputs) != len(inputs):
            raise ValueError(f"there are {len(inputs)} inputs, but {len(outputs)} outputs")
        given = _Arrays(inputs, gpu, View.require_unfixed if outputs is None else None, self._reduction(op))
        made = None if outputs is None else _Arrays(outputs, gpu, View.require_output)
        result = given.results() if made is None else lambda _: outputs
        return self._submit(C.ALLREDUCE, name, given, made, op=op_code(op), result=result,
                            options=_options(prescale, postscale, wire, waits, gpu))

    def _reduction(self, op: str) -> Callable[[Any], Any]:
        return lambda number: for_reduction(number, op, self.group.size)

    @_submits("allgather")
    def allgather(self, tensors: Sequence[Any], *, name: Optional[str] = None, waits: bool = False) -> Operation:
        """For each tensor of the list, the tensors of all ranks, concatenated; first dimensions may differ."""
        given = _Arrays(tensors, makes=True)
        return self._submit(C.ALLGATHER, name, given, options=_options(waits=waits),
                            result=lambda done: done._outputs(tensors))

    @_submits("allgather")
    def allgather_bytes(self, data: bytes, *, name: Optional[str] = None, waits: bool = False) -> Operation:
        """The bytes of each rank, as a list; their lengths may differ."""
        given = _Arrays([data])
        return self._submit(C.ALLGATHER, name, given, options=_options(waits=waits),
                            result=lambda done: done._bytes_of_ranks(self.group.size))

    @_submits("broadcast")
    def broadcast(self, tensors: Sequence[Any], root: int, *, name: Optional[str] = None, waits: bool = False,
                  gpu: Optional[Gpu] = None) -> Operation:
        """Copies the root's elements to the same tensors of every other rank. `gpu`: see allreduce()."""
        given = _Arrays(tensors, gpu, View.require_unfixed)
        return self._submit(C.BROADCAST, name, given, root=arguments.rank("root", root, self.group.size),
                            options=_options(waits=waits, gpu=gpu), result=given.results())

    @_submits("alltoall")
    def alltoall(self, tensor: Any, splits: Optional[Sequence[int]] = None, *, name: Optional[str] = None,
                 waits: bool = False) -> Operation:
        """Sends splits[r] rows to rank r; without splits, equal parts. Result: (output, number of rows from each
        rank)."""
        given = _Arrays([tensor], makes=True)
        ranks = self.group.size
        rows = counts_of_ranks("splits", splits, ranks)
        return self._submit(C.ALLTOALL, name, given, splits=rows, options=_options(waits=waits),
                            result=lambda done: (done._outputs([tensor])[0], done.rows(0, ranks)))

    @_submits("reduce_scatter")
    def reduce_scatter(self, tensors: Sequence[Any], op: str = "sum", *, name: Optional[str] = None,
                       prescale: float = 1.0, postscale: float = 1.0, waits: bool = False) -> Operation:
        """Returns this rank's rows of each tensor's reduction. If rows are left over, the first ranks get one more."""
        given = _Arrays(tensors, prepare=self._reduction(op), makes=True)
        return self._submit(C.REDUCE_SCATTER, name, given, op=op_code(op),
                            options=_options(prescale, postscale, None, waits),
                            result=lambda done: done._outputs(given.sent))

    @_submits("barrier")
    def barrier(self, *, name: Optional[str] = None, waits: bool = False) -> Operation:
        """The barrier is done when every rank has submitted it. It does not wait for other operations."""
        return self._submit(C.BARRIER, name, None, options=_options(waits=waits), result=lambda _: None)

    def join(self, gpu: Optional[Gpu] = None) -> Operation:
        """Declares that this rank has no more data. The operation is done when all ranks have joined; its result is the
        rank that joined last.

        Args:
            gpu: the GPU of this rank, if it has not submitted an operation with GPU tensors.
        """
        handle, options = ctypes.c_void_p(), _options(waits=True, gpu=gpu)
        lib.anello_named_join(self._owned.live("agenda"), ctypes.byref(options), ctypes.byref(handle))
        return Operation(handle.value, None, Operation._last)

    def refuse(self, verb: str, name: Optional[str], error: Exception) -> None:
        """Counts a call that failed before it was submitted as submitted: the other ranks get Mismatch with the reason.

        Does nothing if this error has been reported already.
        """
        number = getattr(C, f"NAMED_{verb.upper()}")
        report(error, lambda reason: lib.anello_named_refuse(self._owned.handle, number, text("name", name), reason))

    def _submit(self, kind: int, name: Optional[str], inputs: Optional["_Arrays"], outputs: Optional["_Arrays"] = None,
                *, options: Any, result: Callable[[Operation], Any], op: int = C.SUM, root: int = 0,
                splits: Any = None) -> Operation:
        call, handle = default("anello_call"), ctypes.c_void_p()
        call.kind, call.op, call.root = kind, op, root
        if inputs is not None:
            call.inputs, call.arrays_size = ctypes.addressof(inputs.list), len(inputs.list)
        if outputs is not None:
            call.outputs = ctypes.addressof(outputs.list)
        if splits is not None:
            call.send_counts = ctypes.addressof(splits)
        lib.anello_named_submit(self._owned.live("agenda"), text("name", name), ctypes.byref(call),
                                ctypes.byref(options), ctypes.byref(handle))
        return Operation(handle.value, (inputs, outputs), result)


class _Arrays:
    """Tensors as anello_array, and the objects that keep the tensors' memory alive.

    Args:
        require: a function that raises if the verb cannot use a view.
        prepare: a function that converts a number to the number that is sent.
        makes: whether the verb makes new tensors of the same kind for its result.
    """

    def __init__(self, tensors: Sequence[Any], gpu: Optional[Gpu] = None,
                 require: Optional[Callable[[View], None]] = None,
                 prepare: Callable[[Any], Any] = lambda number: number, makes: bool = False) -> None:
        if not isinstance(tensors, (list, tuple)):
            raise TypeError(f"named operations take a list of tensors, not {kind_of(tensors)}: write [tensor]")
        device = None if gpu is None else gpu.device
        self.tensors = self.sent = list(tensors) if makes else tensors
        self.views: List[View] = []
        self.shapes: List[Any] = []
        arrays: List[Any] = []
        for tensor in tensors:
            found = tensor if type(tensor) is View else view(tensor, device)
            if found.value is not None:
                number = prepare(tensor)
                found = view(number)._replace(shape=(1,))  # one row
                self.sent = [*self.sent[:len(arrays)], number, *self.sent[len(arrays) + 1:]]
            if require is not None and (found.fixed or found.value is not None):
                require(found)
            if makes:
                require_results(tensor)
            shape = _shape(found.shape)
            self.views.append(found)
            self.shapes.append(shape)
            arrays.append((found.address, ctypes.addressof(shape), len(found.shape), found.dtype))
        self.list = (_Array * len(arrays))(*arrays)

    def results(self) -> Callable[[Operation], Any]:
        """Returns a function that makes the result of a verb which worked in place."""
        made = results(self.tensors, self.views)
        return lambda _: made()


def _options(prescale: float = 1.0, postscale: float = 1.0, wire: Optional[str] = None, waits: bool = False,
             gpu: Optional[Gpu] = None) -> Any:
    if gpu is None and wire is None and type(prescale) is type(postscale) is float and prescale == postscale == 1.0:
        return _PLAIN_OPTIONS[bool(waits)]
    options = default("anello_named_options")
    if gpu is not None:
        options.on_gpu, options.device, options.stream = 1, gpu.device, gpu.stream
    options.prescale, options.postscale = factor("prescale", prescale), factor("postscale", postscale)
    options.wire, options.waits = wire_code(wire), waits
    return options


def _numbers(address: Optional[int], count: int) -> Tuple[int, ...]:
    return tuple((ctypes.c_uint64 * count).from_address(address)) if count and address else ()
