"""If several optimizers share parameters, only one of them sends a gradient, and only once."""
from __future__ import annotations

import weakref
from typing import Any, Dict

_all: "weakref.WeakSet[Claim]" = weakref.WeakSet()


class Claim:
    """Decides which gradients an optimizer may send.

    There may be two optimizers for the same parameters: one of them may never be used again (if a cell of a notebook
    was run twice), or it may be for another phase of the training. So the optimizer that was made or used last sends
    gradients during the backward pass; any other optimizer sends its gradients in step().

    Attributes:
        sends_early: True if the optimizer sends gradients during the backward pass.
        is_sending: True if the optimizer has begun to send gradients in this step.
    """

    def __init__(self) -> None:
        self.sends_early = True
        self.is_sending = False
        self._names: Dict[Any, str] = {}
        self._rivals: "weakref.WeakSet[Claim]" = weakref.WeakSet()
        # True if another optimizer has averaged the gradients since the last one was computed.
        self._are_averaged = False

    def follow(self, names: Dict[Any, str]) -> None:
        """Sets the current parameters of the optimizer."""
        self._names = names
        for other in list(_all):
            if other is not self and any(each in other._names for each in names):
                self._rivals.add(other)
                other._rivals.add(self)
                other.sends_early = False
            else:
                self._rivals.discard(other)
                other._rivals.discard(self)
        _all.add(self)

    def note_gradient(self) -> None:
        """Records that a gradient was computed."""
        self._are_averaged = False

    def take(self, averages: bool = False) -> None:
        """Marks this optimizer as used, so that other optimizers for the same parameters do not send early any more.

        Args:
            averages: True if the optimizer averages the gradients now.
        """
        self.sends_early = True
        for other in self._rivals:
            other.sends_early = False
            other._are_averaged = other._are_averaged or averages

    def require_unsent(self) -> None:
        """Called before gradients are averaged. RuntimeError if another optimizer has already sent one of them."""
        for other in self._rivals:
            if self._are_averaged or other.is_sending:
                name = next(name for each, name in self._names.items() if each in other._names)
                raise RuntimeError(f"two DistributedOptimizers have the parameter '{name}', and the other one has sent "
                                   "its gradient already: give each parameter to one optimizer (parameter groups may "
                                   "have options of their own), or call zero_grad() of the one that takes the step "
                                   "before loss.backward()")
