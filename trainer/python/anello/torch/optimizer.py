"""DistributedOptimizer: an optimizer whose gradients are those of all ranks.

Gradients are sent during the backward pass: the first step sends each by itself and learns which are sparse; from the
second on they travel in buckets. After hvd.join() all ranks begin with a first step again, because some may not have
had one.

No exception leaves a hook, because torch keeps the rest of the graph of an interrupted backward pass until the thread
ends. synchronize() and step() raise the error of a hook when they have finished all buckets; zero_grad(), and step()
within skip_synchronize(), raise it at once, and keep it. Hooks hold weak references, so that the rest of a graph keeps
no optimizer.
"""
from __future__ import annotations

import contextlib
import itertools
import weakref
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Sequence, Tuple, Type, Union

import torch

from . import ops
from .buckets import Bucket, Reduction, SparseBucket, plan
from .compression import Compression, Compressor
from .ops import Average
from .process_sets import ProcessSet, global_process_set
from .same_start import SameStart
from .settings import bucket_bytes
from .user_warning import warn

_numbers = itertools.count()  # of the optimizers of this process, the same on all ranks
Groups = Union[None, int, Sequence[Sequence[torch.nn.Parameter]]]


class _Distributed(torch.optim.Optimizer):
    """What DistributedOptimizer puts before the class of the optimizer that it wraps."""

    def _distribute(self, names: Dict[Any, str], reduction: Reduction, passes: int, groups: Groups,
                    sparse_as_dense: bool, compare_parameters: bool) -> None:
        self._parameter_names = names
        self._reduction = reduction
        self._number = next(_numbers)
        self._sparse_as_dense = sparse_as_dense
        self.backward_passes_per_step = passes
        self._synchronized = False
        self._should_synchronize = True
        self._error: Optional[Exception] = None  # the first since synchronize()
        self._groups = groups
        self._compare_parameters = compare_parameters
        self._trained = [each for each in names if each.requires_grad]
        self._passes_left = {each: passes for each in self._trained}
        self._lost = _nothing_lost(self._trained) if reduction.feedback else {}
        self._begin_training()
        self._hooks = [_when_accumulated(each, self._on_gradient) for each in self._trained]

    def _begin_training(self) -> None:
        """The next step is a first one."""
        self._joins = ops.joins()
        self._learning = self._groups is None
        self._same_start = SameStart({each: self._parameter_names[each] for each in self._trained},
                                     f"parameters of optimizer {self._number}", self._reduction.process_set,
                                     self._compare_parameters)
        self._set_buckets(self._first_buckets())

    def _follow_joins(self) -> None:
        if self._joins != ops.joins() and not any(bucket.started for bucket in self._buckets):
            self._begin_training()

    def _first_buckets(self) -> List[Bucket]:
        if self._groups is None:
            return [self._bucket([each], False) for each in self._trained]
        groups = _grouped(self._trained, self._groups)
        return [self._bucket(members, not self._reduction.by_copy and _on_one_device(members)) for members in groups]

    def _bucket(self, members: Sequence[torch.nn.Parameter], shared: bool) -> Bucket:
        first, last = self._parameter_names[members[0]], self._parameter_names[members[-1]]
        names = first if first == last else f"{first} to {last}"
        return Bucket(f"gradients of {names} in optimizer {self._number}", members, shared)

    def _set_buckets(self, buckets: List[Bucket]) -> None:
        self._buckets = buckets
        self._bucket_of = {each: bucket for bucket in buckets for each in bucket.parameters}
        for bucket in buckets if self._lost else ():
            bucket.keep_lost(self._lost)

    def residuals(self) -> Dict[str, torch.Tensor]:
        """With error_feedback: by name of the parameter, what rounding has taken from this rank's gradient.

        The next step adds it. It belongs to a checkpoint of this rank; copy into these tensors to restore it. Another
        step may move them: call this again after it.
        """
        return {self._parameter_names[each]: lost for each, lost in self._lost.items()}

    def _on_gradient(self, parameter: torch.nn.Parameter) -> None:
        self._attempt(self._send, parameter)

    def _attempt(self, call: Callable[..., None], *arguments: Any) -> None:
        """Calls a function. The first exception is kept until synchronize() raises it."""
        try:
            call(*arguments)
        except Exception as error:
            self._error = self._error or error

    def _send(self, parameter: torch.nn.Parameter) -> None:
        """Counts a gradient, and starts its bucket if it is the last one."""
        if not self._may_send():
            return
        self._follow_joins()
        if self._passes_left[parameter] <= 0:
            raise AssertionError(f"the gradient of {self._parameter_names[parameter]} was computed more often than "
                                 "backward_passes_per_step before step(): increase backward_passes_per_step, or call "
                                 "step() or synchronize() after each backward pass")
        self._passes_left[parameter] -= 1
        if self._passes_left[parameter] > 0:
            return
        bucket = self._bucket_of[parameter]
        if self._learning and parameter.grad.is_sparse and not self._sparse_as_dense:
            bucket = self._make_sparse(bucket)
        if bucket.ready(parameter):
            bucket.start(self._reduction)

    def _make_sparse(self, bucket: Bucket) -> Bucket:
        if isinstance(bucket, SparseBucket):
            return bucket
        reduction = self._reduction
        op = {"average": ops.Average, "sum": ops.Sum}[reduction.op]

        def reduce(gradient: torch.Tensor, name: str) -> Callable[[], torch.Tensor]:
            return ops.sparse_allreduce_async(gradient, name, op, reduction.process_set)

        made = SparseBucket(bucket.name, bucket.parameters[0], reduce)
        self._buckets[self._buckets.index(bucket)] = made
        self._bucket_of[bucket.parameters[0]] = made
        return made

    def synchronize(self) -> None:
        """Blocks until the gradients are those of all ranks; step() does it by itself.

        A gradient that this rank did not compute counts as zero. Call it before gradients are clipped, and then
        step() within skip_synchronize(). Raises the first thing that went wrong since the backward pass began, once
        nothing is under way. After that the next backward pass may begin, except after the error of different models:
        each call raises it again, until hvd.shutdown() and a new optimizer.
        """
        self._finish_buckets()
        try:
            self._raise_error()
        finally:
            self._error = None
        self._synchronized = True

    def _may_send(self) -> bool:
        return self._reduction.process_set.included() and self._same_start.error is None

    def _raise_error(self) -> None:
        error = self._same_start.error or self._error
        if error is not None:
            raise error

    def _finish_buckets(self) -> None:
        """Finishes every bucket, also if others fail; none if ranks have different models."""
        if not self._may_send():
            return
        self._follow_joins()
        self._attempt(self._same_start.begin)
        for bucket in self._buckets:
            if not bucket.started:
                self._attempt(bucket.start, self._reduction)
        self._attempt(self._same_start.end)
        if self._same_start.error is not None:
            return
        for bucket in self._buckets:
            self._attempt(bucket.finish)
        self._passes_left = {each: self.backward_passes_per_step for each in self._trained}
        if self._sparse_as_dense:
            self._attempt(self._restore_sparse)
        if self._learning:
            self._learned()

    def _learned(self) -> None:
        self._learning = False
        sparse = [each for each in self._buckets if isinstance(each, SparseBucket)]
        dense = [each for each in self._trained if not isinstance(self._bucket_of[each], SparseBucket)]
        if self._reduction.by_copy:
            return
        self._set_buckets([self._bucket(members, True) for members in plan(dense, bucket_bytes())] + sparse)

    def _restore_sparse(self) -> None:
        if isinstance(self, torch.optim.SparseAdam):  # it takes no others
            for each in self._trained:
                each.grad = each.grad.to_sparse(1)

    @contextlib.contextmanager
    def skip_synchronize(self) -> Iterator[None]:
        """Within it, step() takes the gradients as they are, because synchronize() was called before."""
        self._should_synchronize = False
        try:
            yield
        finally:
            self._should_synchronize = True

    def set_backward_passes_per_step(self, passes: int) -> None:
        """How many backward passes add to a gradient before it is sent."""
        self.backward_passes_per_step = passes
        self._passes_left = {each: passes for each in self._trained}

    def step(self, closure: Optional[Callable[[], Any]] = None) -> Any:
        """Combines the gradients of all ranks, then takes the wrapped optimizer's step.

        A closure, which LBFGS needs, is called as often as the optimizer wants. After each call the gradients are
        combined, and so is the loss: the optimizer decides by it, and all ranks must decide alike.
        """
        if self._should_synchronize and closure is not None:
            closure = self._of_all_ranks(closure)
        elif self._should_synchronize:
            if self._synchronized:
                warn("optimizer.step() called without optimizer.skip_synchronize() context after "
                     "optimizer.synchronize(): the gradients are sent twice")
            self.synchronize()
        self._raise_error()
        self._synchronized = False
        return super().step(closure)

    def _of_all_ranks(self, closure: Callable[[], Any]) -> Callable[[], Any]:
        def evaluate() -> Any:
            loss = closure()
            if not self._synchronized:  # the closure may clip gradients
                self.synchronize()
            self._synchronized = False
            return self._mean_loss(loss)

        return evaluate

    def _mean_loss(self, loss: Any) -> Any:
        """Over the ranks; or the sum, if gradients are added. A loss of other types than a tensor becomes a float."""
        if loss is None or not self._may_send():
            return loss
        value = loss.detach() if isinstance(loss, torch.Tensor) else torch.tensor(float(loss), dtype=torch.float64)
        op = ops.Sum if self._reduction.op == "sum" else ops.Average
        name, process_set = f"loss of optimizer {self._number}", self._reduction.process_set
        mean = ops.synchronize(ops.allreduce_async(value, name=name, op=op, process_set=process_set, waits=True))
        return mean if isinstance(loss, torch.Tensor) else mean.item()

    def zero_grad(self, *arguments: Any, **options: Any) -> None:
        """Sets the gradients to zero; those in buckets stay where they are. Raises an error of a hook at once."""
        self._raise_error()
        if any(bucket.started for bucket in self._buckets):
            raise AssertionError("optimizer.zero_grad() was called after loss.backward() but before optimizer.step() "
                                 "or optimizer.synchronize(): gradients are on their way")
        if not all([bucket.zero() for bucket in self._buckets]):
            super().zero_grad(*arguments, **options)
            for bucket in self._buckets:
                bucket.zero()


def _when_accumulated(parameter: torch.nn.Parameter, call: Callable[[torch.nn.Parameter], None]) -> Any:
    """Has a method called when autograd has added to a parameter's gradient. Keep what it returns."""
    method, its = weakref.WeakMethod(call), weakref.ref(parameter)

    def hook(*_: Any) -> None:
        alive, owner = method(), its()
        if alive is not None and owner is not None:
            alive(owner)

    if hasattr(parameter, "register_post_accumulate_grad_hook"):  # from torch 2.1 on
        return parameter.register_post_accumulate_grad_hook(hook)
    accumulate = parameter.expand_as(parameter).grad_fn.next_functions[0][0]
    accumulate.register_hook(hook)
    return accumulate


def _nothing_lost(parameters: Iterable[torch.nn.Parameter]) -> Dict[Any, torch.Tensor]:
    lost = {}
    for each in parameters:
        if each.dtype != torch.float32:
            raise ValueError(f"error_feedback is for gradients of float32, but a parameter is of {each.dtype}")
        lost[each] = torch.zeros(each.shape)
    return lost


def _on_one_device(parameters: Iterable[torch.nn.Parameter]) -> bool:
    return len({each.device for each in parameters}) == 1


def _grouped(parameters: List[torch.nn.Parameter], groups: Groups) -> List[List[torch.nn.Parameter]]:
    """The program's own groups; parameters in none of them are groups of one."""
    if isinstance(groups, int):
        if groups < 0:
            raise ValueError(f"groups must not be negative, but is {groups}")
        count = min(groups, len(parameters)) or len(parameters)
        ends = [len(parameters) * k // count for k in range(count + 1)] if count else []
        return [parameters[begin:end] for begin, end in zip(ends, ends[1:])]
    if not isinstance(groups, (list, tuple)) or not all(isinstance(one, (list, tuple)) for one in groups):
        raise ValueError("groups must be a number or a list of lists of parameters")
    trained, seen = set(parameters), set()
    made = []
    for group in groups:
        members = [each for each in group if each in trained]
        if any(each in seen for each in members):
            raise ValueError("a parameter is in two groups")
        seen.update(members)
        made.append(members)
    return [members for members in made if members] + [[each] for each in parameters if each not in seen]


def _name(optimizer: torch.optim.Optimizer,
          named_parameters: Optional[Iterable[Tuple[str, torch.nn.Parameter]]]) -> Dict[Any, str]:
    """The name of each of the optimizer's parameters."""
    groups = [group["params"] for group in optimizer.param_groups]
    if named_parameters is None:
        return {each: f"parameter {k} of group {g}" for g, group in enumerate(groups) for k, each in enumerate(group)}
    named = list(named_parameters)
    if any(not isinstance(one, tuple) or len(one) != 2 for one in named):
        raise ValueError("named_parameters must be pairs of name and parameter, as model.named_parameters() gives")
    names = [name for name, _ in named]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"named_parameters has these names twice: {', '.join(twice)}")
    of = {each: name for name, each in named}
    every = list(itertools.chain(*groups))
    if any(each not in of for each in every):
        raise ValueError("named_parameters lacks some of the optimizer's parameters: name all of them, or none")
    return {each: of[each] for each in every}


def DistributedOptimizer(optimizer: torch.optim.Optimizer,
                         named_parameters: Optional[Iterable[Tuple[str, torch.nn.Parameter]]] = None,
                         compression: Type[Compressor] = Compression.none, backward_passes_per_step: int = 1,
                         op: int = Average, gradient_predivide_factor: float = 1.0, num_groups: int = 0,
                         groups: Groups = None, sparse_as_dense: bool = False,
                         process_set: ProcessSet = global_process_set, error_feedback: bool = False,
                         compare_parameters: bool = True) -> Any:
    """Wraps an optimizer: step() applies the gradients of all ranks, which are sent during the backward pass.

    Args:
        optimizer: any optimizer of torch, or one derived from them; its class stays a base of the result's.
        named_parameters: model.named_parameters(), for messages.
        compression: Compression.fp16 or .bf16: gradients travel rounded to 16 bits.
        backward_passes_per_step: how many backward passes add to a gradient before it is sent.
        op: Average or Sum; Min, Max, Product. Adasum is not available.
        gradient_predivide_factor: with Average: gradients are divided by it before the sum, and multiplied after it.
        groups: a number, or lists of parameters: gradients of a group travel together. By default the size decides
            (HOROVOD_FUSION_THRESHOLD, 4 MiB). `num_groups` is its older name.
        sparse_as_dense: sparse gradients travel as dense ones.
        process_set: the ranks that train together; others step with their own gradients.
        error_feedback: with compression: what rounding takes from a gradient is added to that of the next step, so
            that gradients too small for 16 bits are not lost. Not Horovod's. See residuals().
        compare_parameters: rank 0 warns if the ranks have different parameters in the first step and still in the
            second, for example because the script does not broadcast them. The same on all ranks. Not Horovod's.
    """
    reduction = ops.reduction(op)
    if gradient_predivide_factor != 1.0 and reduction != Average:
        raise ValueError("gradient_predivide_factor is for op=Average")
    if backward_passes_per_step <= 0:
        raise ValueError("backward_passes_per_step must be positive")
    names = _name(optimizer, named_parameters)
    if isinstance(optimizer, _Distributed):
        raise ValueError("this optimizer is a DistributedOptimizer already")
    kind = type(optimizer)
    made = object.__new__(type(kind.__name__, (_Distributed, kind), {"__module__": __name__}))
    # A learning-rate schedule may have put a step() of its own into the optimizer.
    made.__dict__.update({key: value for key, value in optimizer.__dict__.items() if key != "step"})
    made._distribute(names, Reduction(ops.engine_op(reduction), gradient_predivide_factor, compression, process_set,
                                      error_feedback),
                     backward_passes_per_step, groups if groups is not None else (num_groups or None), sparse_as_dense,
                     compare_parameters)
    return made
