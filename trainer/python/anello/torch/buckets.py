"""Buckets: gradients that are sent as one operation, without a copy.

The gradients of a shared bucket are views of one flat tensor, and this tensor is sent. autograd adds to the views in
place. If a gradient lies elsewhere, it is copied into its view, and the view replaces it. The bucket keeps its own list
of views, because the program may replace the memory of a gradient: by `grad.data = ...` or model.half().
"""
from __future__ import annotations

import operator
from typing import Any, Callable, Dict, List, Optional, Sequence, Set, Tuple, Type

import torch

from .. import dlpack
from .._library import lib
from ..arguments import wire_code
from ..errors import Unsupported
from ..horovod.compression import checked
from ..horovod.process_sets import ProcessSet, require_set
from ..horovod.refusals import submitting
from ..tensors import view
from . import gpus
from .compression import Compressor
from .shared_buckets import warn_of_private_memory

_Gradients = Tuple[List[Optional[torch.Tensor]], List[Optional[int]], List[int]]
_WIRES = {torch.float16: "f16", torch.bfloat16: "bf16"}


class Reduction:
    """How gradients are combined: the engine's reduction, factors, compression, error feedback, and the process set."""

    def __init__(self, op: str, factor: float, compression: Type[Compressor], process_set: ProcessSet,
                 feedback: bool = False) -> None:
        self.op = op
        self.factor = factor  # inputs are divided by this factor, and results are multiplied by it
        self.compression = checked(compression)
        self.process_set = require_set(process_set)
        # The engine rounds tensors while it sends them, without a copy. A program's own compressor needs a copy; such a
        # compressor may also be an object instead of a class.
        self.by_copy = not (isinstance(compression, type) and issubclass(compression, Compressor))
        self.wire = None if self.by_copy else _WIRES.get(compression.wire)
        self.feedback = feedback
        if feedback and (self.wire is None or op not in ("average", "sum")):
            raise ValueError("error_feedback is for sums and averages of gradients that are rounded: give "
                             "compression=Compression.fp16 or .bf16")

    def start(self, tensors: Sequence[torch.Tensor], name: str,
              lost: Sequence[torch.Tensor] = ()) -> Callable[[], None]:
        """Starts the reduction of tensors in place. Returns a function that waits for the end.

        Args:
            lost: with error feedback, the rounding errors of each tensor. They are added to the tensor, and then
                replaced by the new errors.
        """
        compressed = [self.compression.compress(tensor) if self.by_copy else (tensor, None) for tensor in tensors]
        gpu = None if self.feedback or self.by_copy else gpus.place(tensors)
        sent = [(each.detach() if gpu else each.detach().cpu()).contiguous() for each, _ in compressed]
        wire = self.wire if all(each.dtype in (torch.float32, torch.float64) for each in sent) else None
        op, factor = self.op, self.factor
        if self.feedback:
            self._round(sent, lost)
            op, factor = "sum", 1.0
        operation = self.process_set.agenda.allreduce(sent, None, op, name=name, prescale=1 / factor,
                                                      postscale=factor, wire=wire, gpu=gpu)

        def wait() -> None:
            operation.wait()
            for tensor, (_, ctx), each in zip(tensors, compressed, sent):
                if self.by_copy:  # compress() may have returned the tensor itself
                    tensor.copy_(self.compression.decompress(each, ctx))
                elif each.data_ptr() != tensor.data_ptr():
                    tensor.copy_(each)

        return wait

    def _round(self, sent: Sequence[torch.Tensor], lost: Sequence[torch.Tensor]) -> None:
        """Rounds this rank's parts of the result to the type that is sent. After the rounding, nothing may scale these
        parts."""
        factor = 1 / self.process_set.size() if self.op == "average" else 1.0
        for each, its in zip(sent, lost):
            lib.anello_round_with_feedback(view(each).output(), factor, wire_code(self.wire), view(its).address)


class Bucket:
    """Parameters whose gradients are sent as one operation when all of these gradients are ready."""

    def __init__(self, name: str, parameters: Sequence[torch.nn.Parameter], shared: bool) -> None:
        self.name = name
        self.parameters = list(parameters)
        self._flat: List[torch.Tensor] = []
        self._lost: List[torch.Tensor] = []
        self._views: Dict[Any, torch.Tensor] = {}
        self._all = set(parameters)
        self._missing: Set[Any] = self._all.copy()
        self._streams = gpus.Streams()
        self._wait: Optional[Callable[[], None]] = None
        self._sent: Optional[_Gradients] = None
        self._refusal: Optional[Exception] = None  # the error of start(); if there is one, start() sent nothing
        self._absent: List[torch.nn.Parameter] = []  # frozen parameters without a gradient in this step
        if shared:
            self._share()

    def _share(self) -> None:
        for dtype in sorted({each.dtype for each in self.parameters}, key=str):
            members = [each for each in self.parameters if each.dtype == dtype]
            flat = _zeros(members[0], sum(each.numel() for each in members))
            parts = flat.split([each.numel() for each in members])
            self._flat.append(flat)
            self._views.update({each: part.view(each.shape) for each, part in zip(members, parts)})

    def keep_lost(self, lost: Dict[Any, torch.Tensor]) -> None:
        """For error feedback: copies the rounding errors of each gradient so far to the bucket's memory for such
        errors."""
        flat = torch.cat([lost[each].reshape(-1) for each in self.parameters])
        parts = flat.split([each.numel() for each in self.parameters])
        lost.update({each: part.view(each.shape) for each, part in zip(self.parameters, parts)})
        self._lost = [flat] if self._flat else list(parts)

    @property
    def started(self) -> bool:
        """True from start() to finish()."""
        return self._wait is not None or self._refusal is not None

    @property
    def refused(self) -> bool:
        """True if start() has failed since the last finish()."""
        return self._refusal is not None

    def ready(self, parameter: torch.nn.Parameter) -> bool:
        """Counts a complete gradient. Returns True if it was the bucket's last one."""
        self._missing.discard(parameter)
        self._streams.note(parameter)
        return not self._missing

    @torch.no_grad()  # with create_graph=True, the backward pass would record a graph
    def start(self, reduction: Reduction) -> None:
        """Sends the gradients; a missing gradient counts as zero.

        If sending fails, the bucket counts as started: finish() raises the error again, and the other ranks get
        Mismatch.
        """
        try:
            self._wait = self._send(reduction)
        except Exception as error:
            self._refusal = error
            raise

    def _send(self, reduction: Reduction) -> Callable[[], None]:
        with submitting("allreduce", self.name, reduction.process_set):
            return self._reduce(reduction)

    def _reduce(self, reduction: Reduction) -> Callable[[], None]:
        self._streams.join()
        self._absent = [each for each in self.parameters if each.grad is None and not each.requires_grad]
        for parameter in self.parameters:
            self._adopt(parameter)
        wait = reduction.start(self._flat or [each.grad for each in self.parameters], self.name, self._lost)
        self._sent = self._gradients()
        return wait

    @torch.no_grad()
    def finish(self) -> None:
        """Waits until the gradients are combined. RuntimeError if the program changed them after they were sent."""
        wait, self._wait = self._wait, None
        sent, self._sent = self._sent, None
        refusal, self._refusal = self._refusal, None
        self._missing = self._all.copy()
        if refusal:
            raise refusal
        same = sent is None or _are_same(sent, self._gradients())
        if wait:
            wait()
        for parameter in self._absent:
            # No rank trains the parameter: momentum must not move it.
            if parameter.grad is not None and not parameter.grad.any():
                parameter.grad = None
        if not same:
            raise RuntimeError(f"{self.name} were changed after loss.backward() had sent them (by clipping, for "
                               "example): call optimizer.synchronize() first, then change them, then call "
                               "optimizer.step() within optimizer.skip_synchronize()")

    def _gradients(self) -> _Gradients:
        """The gradients, their addresses, and torch's counts of changes to shared gradients.

        The result has no such counts for gradients that are not shared: autograd may make these as parts of one tensor,
        which has one count for all parts. In torch.inference_mode() torch counts nothing.
        """
        versions = [flat._version for flat in self._flat if not flat.is_inference()]
        gradients = [each.grad for each in self.parameters]
        return gradients, [None if each is None else each.data_ptr() for each in gradients], versions

    def zero(self) -> bool:
        """Sets the gradients to zero in place. Returns False if they are not shared."""
        self._missing = self._all.copy()
        for flat in self._flat:
            flat.zero_()
        for parameter, its in self._views.items():
            is_absent = parameter.grad is None and not parameter.requires_grad
            if not is_absent and not _lies_in(parameter.grad, its):
                parameter.grad = its.view(its.shape)
        return bool(self._flat)

    def _adopt(self, parameter: torch.nn.Parameter) -> None:
        its, given = self._views.get(parameter), parameter.grad
        if given is not None and given.is_sparse:
            given = given.to_dense()
        if its is None:
            parameter.grad = torch.zeros_like(parameter) if given is None else given
        elif not _lies_in(given, its):
            its.zero_() if given is None else its.copy_(given)
            parameter.grad = its.view(its.shape)


def _lies_in(gradient: Optional[torch.Tensor], view: torch.Tensor) -> bool:
    return gradient is not None and not gradient.is_sparse and gradient.data_ptr() == view.data_ptr()


def _are_same(before: _Gradients, now: _Gradients) -> bool:
    return all(map(operator.is_, before[0], now[0])) and before[1:] == now[1:]


def _zeros(like: torch.Tensor, count: int) -> torch.Tensor:
    """A flat tensor of the type and device of `like`; on the host in memory that other ranks of the host can read.

    If no such memory can be made, other ranks get copies.
    """
    if like.device.type == "cpu":
        try:
            return dlpack.zeros(view(like.detach().new_empty(1)).dtype, count)
        except Unsupported as error:
            warn_of_private_memory(error)
    return like.detach().new_zeros(count)


class SparseBucket(Bucket):
    """One parameter whose gradient is sparse: rows and values of all ranks are gathered."""

    def __init__(self, name: str, parameter: torch.nn.Parameter, reduce: Callable[..., Any]) -> None:
        super().__init__(name, [parameter], shared=False)
        self._gather = reduce

    def _send(self, reduction: Reduction) -> Callable[[], None]:
        """Sends the gradient; a missing gradient counts as a gradient without rows."""
        parameter = self.parameters[0]
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter).to_sparse(1)
        gathered = self._gather(parameter.grad, self.name)

        def wait() -> None:
            parameter.grad = gathered()

        return wait


def plan(parameters: Sequence[torch.nn.Parameter], limit_bytes: int) -> List[List[torch.nn.Parameter]]:
    """Divides parameters into buckets of one type and device. The last parameter comes first, like its gradient.

    All ranks get the same buckets if each rank's model is on one device, even if the devices of different ranks differ.
    """
    buckets: List[List[torch.nn.Parameter]] = []
    open_buckets: Dict[Any, List[torch.nn.Parameter]] = {}
    filled: Dict[Any, int] = {}
    for parameter in reversed(parameters):
        bytes_ = parameter.numel() * parameter.element_size()
        kind = (parameter.dtype, parameter.device)
        if kind not in open_buckets or filled[kind] + bytes_ > limit_bytes:
            open_buckets[kind] = []
            buckets.append(open_buckets[kind])
            filled[kind] = 0
        open_buckets[kind].append(parameter)
        filled[kind] += bytes_
    return buckets
