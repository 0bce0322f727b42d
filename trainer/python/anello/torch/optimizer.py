"""An optimizer that uses the gradients of all ranks.

In the first step the ranks agree which gradients exist and which of them are sparse, and step() sends the gradients.
From the second step on, gradients are sent during the backward pass, in buckets. When the program has changed the
optimizer's parameters, and after hvd.join(), the next step counts as a first step again, because some ranks may not
have had one.

If only some ranks have changed their parameters, all ranks get an error: the operation of the agreement has the same
name as the first bucket's, so the engine takes the two for one operation whose calls differ, and raises Mismatch.

A hook catches all its exceptions, because torch would keep the rest of the graph of an interrupted backward pass until
the thread ends. synchronize() and step() raise the error of a hook after they have finished all buckets. zero_grad(),
and step() within skip_synchronize(), raise the error at once, and keep it for synchronize(). Hooks hold weak
references, so that the rest of a graph does not keep an optimizer alive.
"""
from __future__ import annotations

import contextlib
import threading
import weakref
from typing import Any, Callable, Dict, Iterator, List, NoReturn, Optional, Sequence

import torch

from ..errors import Mismatch
from ..horovod.basics import joins
from ..horovod.grouping import grouped
from ..horovod.numbering import next_number
from ..horovod.process_sets import ProcessSet, watch
from ..horovod.reductions import Average, Sum, reduction_named
from ..horovod.settings import bucket_bytes
from ..horovod.user_warning import warn
from . import ops
from .buckets import Bucket, Reduction, SparseBucket, plan
from .claim import Claim
from .grouping import Groups, on_one_device
from .same_start import Agreed, SameStart
from .trained import Trained


class _Worlds:
    """Informs the optimizers of the end of their worlds."""

    def added(self, process_set: ProcessSet, world: Any) -> None:
        pass

    def removed(self, process_set: ProcessSet) -> None:
        for each in [each for each in _alive if each._reduction.process_set is process_set]:
            each.forget_world()


class Distributed(torch.optim.Optimizer):
    """The base class that DistributedOptimizer inserts before the class of the wrapped optimizer."""

    def _distribute(self, wrapped: torch.optim.Optimizer, named: Optional[Dict[Any, str]], reduction: Reduction,
                    passes: int, groups: Groups, sparse_as_dense: bool, compare_parameters: bool) -> None:
        self._wrapped = wrapped
        self._reduction = reduction
        self._sparse_as_dense = sparse_as_dense
        self._synchronized = False
        self._should_synchronize = True
        self.steps_begun = 0  # steps that may have changed parameters
        self._error: Optional[Exception] = None  # the first error since synchronize()
        self._groups = groups
        self._compare_parameters = compare_parameters
        self._claim = Claim()
        self._sending = threading.RLock()  # autograd calls hooks in a thread for each device
        self._trained = Trained(named, self._on_gradient)
        self._number: Optional[int] = None
        self._age: Any = None
        self._lost: Dict[Any, torch.Tensor] = {}
        self._sparse: Any = set()
        self._first: Optional[Bucket] = None
        self._set_buckets([])
        self._same_start = SameStart({}, reduction.process_set, False, False)
        self.set_backward_passes_per_step(passes)
        self._follow_parameters()
        self._keep_lost()
        if groups is not None:
            grouped(list(self._trained.names), groups)
        _alive.add(self)

    def _follow_parameters(self) -> bool:
        """Updates the list of trained parameters. Returns True if they have changed."""
        if not self._trained.update(self.param_groups):
            return False
        self._claim.follow(self._trained.names)
        self.set_backward_passes_per_step(self.backward_passes_per_step)
        self._begin_training(changed=self._number is not None)
        return True

    def forget_world(self) -> None:
        """Called when the world ends: gives up the step under way. The next step will be a first step.

        Gradients get new memory, because a stopped rank of the old world may still write to the old memory.
        """
        with self._sending, torch.no_grad():
            for each in self._bucket_of:
                each.grad = None if each.grad is None else each.grad.clone()
            self._set_buckets([])
            self._claim.is_sending = self._synchronized = False
            self._error = None
            self._restart_count()

    def _follow(self) -> None:
        """Makes this step a first step if a fact on which the ranks had agreed has changed."""
        agenda = self._reduction.process_set.agenda
        age = (weakref.ref(agenda), joins())
        changed = self._follow_parameters()
        if self._age != age:
            self._number = next_number(agenda)
            self._age, self._first = age, None
            if not changed:
                self._begin_training(changed=False)

    def _begin_training(self, changed: bool) -> None:
        """Makes the next step a first step."""
        self._agreed = False
        self._same_start = SameStart(self._trained.names, self._reduction.process_set, self._compare_parameters, changed)

    def _agree(self) -> None:
        """Blocks until all ranks have called it. Then makes the buckets."""
        self._keep_lost()
        if self._groups is None and not self._sparse_as_dense:
            self._sparse |= {each for each in self._trained.names if each.grad is not None and each.grad.is_sparse}
        name = self._first.name if self._first else f"parameters of optimizer {self._number}"
        agreed = self._same_start.agree(name, self._sparse)
        self._sparse = agreed.sparse
        self._set_buckets(self._plan(agreed))
        self._agreed = True

    def _keep_lost(self) -> None:
        if self._reduction.feedback:
            self._lost = {each: self._lost[each] if each in self._lost else _nothing_lost(each)
                          for each in self._trained.names}

    def _plan(self, agreed: Agreed) -> List[Bucket]:
        dense = [each for each in agreed.order if each not in agreed.sparse]
        if self._groups is not None:
            lists = grouped(dense, self._groups)
        elif self._reduction.by_copy:
            lists = [[each] for each in dense]
        else:
            lists = plan(dense, bucket_bytes())
        made: List[Bucket] = [Bucket(self._name_of(members), members, not self._reduction.by_copy
                                     and on_one_device(members)) for members in lists]
        return made + [self._sparse_bucket(each) for each in agreed.order if each in agreed.sparse]

    def _name_of(self, members: Sequence[torch.nn.Parameter]) -> str:
        first, last = self._trained.names[members[0]], self._trained.names[members[-1]]
        names = first if first == last else f"{first} to {last}"
        return f"gradients of {names} in optimizer {self._number}"

    def _sparse_bucket(self, parameter: torch.nn.Parameter) -> Bucket:
        reduction = self._reduction
        op = reduction_named(reduction.op)

        def reduce(gradient: torch.Tensor, name: str) -> Callable[[], torch.Tensor]:
            return ops.sparse_allreduce_async(gradient, name, op, reduction.process_set)

        return SparseBucket(self._name_of([parameter]), parameter, reduce)

    def _set_buckets(self, buckets: List[Bucket]) -> None:
        self._buckets = buckets
        self._bucket_of = {each: bucket for bucket in buckets for each in bucket.parameters}
        self._first = next((each for each in buckets if not isinstance(each, SparseBucket)), None)
        for bucket in buckets if self._lost else ():
            bucket.keep_lost(self._lost)

    def residuals(self) -> Dict[str, torch.Tensor]:
        """With error_feedback: the rounding error of this rank's gradients, by name of the parameter.

        The error is added in the next step. A checkpoint of this rank should contain the error. To restore it, copy it
        into these tensors. A later step may move the tensors: call this method again after each step.
        """
        return {self._trained.names[each]: lost for each, lost in self._lost.items()}

    def _on_gradient(self, parameter: torch.nn.Parameter) -> None:
        with self._sending:
            self._attempt(self._send, parameter)

    def _attempt(self, call: Callable[..., None], *arguments: Any) -> None:
        """Calls a function. If it raises, keeps the first exception until synchronize() raises it."""
        try:
            call(*arguments)
        except Exception as error:
            self._error = self._error or error

    def _send(self, parameter: torch.nn.Parameter) -> None:
        """Counts a gradient, and starts its bucket if it is the bucket's last gradient."""
        self._claim.note_gradient()
        left = self._passes_left.get(parameter)
        if left is None or not self._claim.sends_early or not self._may_send():
            return
        if left <= 0:
            raise AssertionError(f"the gradient of {self._trained.names[parameter]} was computed more often than "
                                 "backward_passes_per_step before step(): increase backward_passes_per_step, or call "
                                 "step() or synchronize() after each backward pass")
        self._passes_left[parameter] = left - 1
        if left > 1:
            return
        bucket = self._bucket_of.get(parameter)
        if bucket is not None and bucket.ready(parameter) and self._has_agreed():
            self._claim.is_sending = True
            bucket.start(self._reduction)

    def _has_agreed(self) -> bool:
        """True if the buckets are still valid. Called before the first bucket of a step is sent."""
        if not self._is_under_way():
            self._follow()
        return self._agreed

    def _is_under_way(self) -> bool:
        return any(bucket.started for bucket in self._buckets)

    def synchronize(self) -> None:
        """Blocks until the gradients are those of all ranks; step() calls it by itself.

        A gradient that this rank did not compute counts as zero. To clip gradients, call this method, then clip, then
        call step() within skip_synchronize(). Raises the first error since the backward pass began, after all
        operations have ended. Then the next backward pass may begin. But if the models of the ranks differ, each call
        raises that error again, until hvd.shutdown() is called and a new optimizer is made.
        """
        try:
            self._finish_buckets()
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
        """Finishes every bucket, even if some fail. Finishes none if the ranks have different models."""
        if not self._may_send():
            return
        try:
            if not self._is_under_way():
                self._claim.require_unsent()
                self._follow()
            self._claim.take(averages=True)
            is_first = not self._agreed
            if is_first:
                self._agree()
            self._reduce(compare=not is_first)
        except Exception as error:
            self._error = self._error or error
        self._claim.is_sending = False
        self._restart_count()

    def _reduce(self, compare: bool) -> None:
        for bucket in self._buckets:
            if not bucket.started:
                self._attempt(bucket.start, self._reduction)
        if compare:
            self._attempt(self._same_start.begin_again, f"parameters of optimizer {self._number}")
        if self._first is None:
            self._agreed = False  # all ranks agree in each step: a rank that agreed alone would wait forever
        else:
            self._attempt(self._finish_first, self._first)
        if self._same_start.error is not None:
            return
        self._attempt(self._same_start.end_again)
        for bucket in self._buckets:
            self._attempt(bucket.finish)
        if self._sparse_as_dense:
            self._attempt(self._restore_sparse)

    def _finish_first(self, bucket: Bucket) -> None:
        refused = bucket.refused
        try:
            bucket.finish()
        except Exception as error:
            if refused or isinstance(error, Mismatch):  # another rank may have changed its parameters, and agree now
                self._same_start.explain()
            raise

    def _restart_count(self) -> None:
        self._passes_left = self._all_passes.copy()  # copy() does not compute the tensors' hashes again

    def _restore_sparse(self) -> None:
        if isinstance(self, torch.optim.SparseAdam):  # it accepts only sparse gradients
            for each in self._trained.names:
                each.grad = None if each.grad is None else each.grad.to_sparse(1)

    @contextlib.contextmanager
    def skip_synchronize(self) -> Iterator[None]:
        """Inside this block, step() uses the gradients unchanged, because the program has called synchronize()."""
        self._should_synchronize = False
        try:
            yield
        finally:
            self._should_synchronize = True

    def set_backward_passes_per_step(self, passes: int) -> None:
        """Sets the number of backward passes whose gradients are added up before they are sent."""
        self.backward_passes_per_step = passes
        self._all_passes = dict.fromkeys(self._trained.names, passes)
        self._restart_count()

    def step(self, closure: Optional[Callable[[], Any]] = None) -> Any:
        """Combines the gradients of all ranks, then takes the wrapped optimizer's step.

        The optimizer may call a closure (LBFGS needs one) several times. Each call's gradients and loss are combined:
        the optimizer's decisions depend on the loss, and must be equal on all ranks.
        """
        if self._should_synchronize and closure is not None:
            closure = self._of_all_ranks(closure)
        elif self._should_synchronize:
            if self._synchronized:
                warn("optimizer.step() called without optimizer.skip_synchronize() context after "
                     "optimizer.synchronize(): the gradients are sent twice")
            self.synchronize()
        self._raise_error()
        self._require_all_averaged()
        self._synchronized = False
        self._note_step()
        self.steps_begun += 1
        return super().step(closure)

    def _require_all_averaged(self) -> None:
        late = self._trained.not_followed(self.param_groups) if self._may_send() else []
        if late:
            raise RuntimeError(f"the gradient of '{late[0]}' is only this rank's, because the parameter was added to "
                               "the optimizer, or began to need a gradient, after gradients had been sent: change "
                               "parameters before loss.backward(), on all ranks")

    def _note_step(self) -> None:
        """Counts the step for learning-rate schedules made before the wrapping, which warn if there was no step."""
        wrapped: Any = self._wrapped
        if "step" in wrapped.__dict__:
            wrapped._opt_called = True
            wrapped._step_count = getattr(wrapped, "_step_count", 0) + 1  # before torch 2.4

    def load_state_dict(self, state_dict: Dict[str, Any]) -> None:
        """Loads the state. The wrapped optimizer stays the same object: earlier learning-rate schedules use it."""
        super().load_state_dict(state_dict)
        self._wrapped.param_groups, self._wrapped.state = self.param_groups, self.state

    @property
    def _parameter_names(self) -> Dict[Any, str]:
        # Horovod's name of the attribute: programs read it.
        return self._trained.names

    def __reduce_ex__(self, _: Any) -> NoReturn:
        raise TypeError("a DistributedOptimizer cannot be pickled or copied, since it belongs to the ranks of this job: "
                        "save its state_dict(), and wrap an optimizer that has loaded it")

    def _of_all_ranks(self, closure: Callable[[], Any]) -> Callable[[], Any]:
        def evaluate() -> Any:
            loss = closure()
            if not self._synchronized:  # the closure may clip gradients
                self.synchronize()
            self._synchronized = False
            return self._mean_loss(loss)

        return evaluate

    def _mean_loss(self, loss: Any) -> Any:
        """The mean loss over the ranks; the sum if op is Sum. A loss that is not a tensor becomes a float."""
        if loss is None or not self._may_send():
            return loss
        value = loss.detach() if isinstance(loss, torch.Tensor) else torch.tensor(float(loss), dtype=torch.float64)
        op = Sum if self._reduction.op == "sum" else Average
        name, process_set = f"loss of optimizer {self._number}", self._reduction.process_set
        mean = ops.synchronize(ops.allreduce_async(value, name=name, op=op, process_set=process_set, waits=True))
        return mean if isinstance(loss, torch.Tensor) else mean.item()

    def zero_grad(self, *arguments: Any, **options: Any) -> None:
        """Sets the gradients to zero; gradients in buckets stay in their buckets. Raises an error of a hook at once."""
        self._raise_error()
        if self._is_under_way():
            raise AssertionError("optimizer.zero_grad() was called after loss.backward() but before optimizer.step() "
                                 "or optimizer.synchronize(): gradients are on their way")
        self._claim.take()
        self._restart_count()
        if self._trained.changed(self.param_groups):  # new buckets will be made
            super().zero_grad(*arguments, **options)
            return
        are_shared = [bucket.zero() for bucket in self._buckets]
        if not (are_shared and all(are_shared) and self._trained.has_only_trained()):
            super().zero_grad(*arguments, **options)
            for bucket in self._buckets:
                bucket.zero()


_alive: "weakref.WeakSet[Distributed]" = weakref.WeakSet()
watch(_Worlds())


def _nothing_lost(parameter: torch.nn.Parameter) -> torch.Tensor:
    if parameter.dtype != torch.float32:
        raise ValueError(f"error_feedback is for gradients of float32, but a parameter is of {parameter.dtype}")
    return torch.zeros(parameter.shape)
