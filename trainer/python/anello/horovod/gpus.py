"""The functions that init() needs from a framework with tensors in GPU memory."""
from __future__ import annotations

from typing import Optional, Protocol

from ..agenda import Gpu


class Gpus(Protocol):
    """Describes how a framework's tensors in GPU memory are sent."""

    def usable(self) -> bool:
        """True if the engine can use such tensors of this process without a copy."""

    def missing(self) -> str:
        """Describes what this process lacks to use such tensors without a copy."""

    def enable(self, on_all_ranks: bool) -> None:
        """Called by init(), with the same argument on all ranks."""

    def enabled(self) -> bool:
        """True if tensors need not be copied to host memory."""

    def own(self) -> Optional[Gpu]:
        """The GPU of this rank, for operations in which this rank takes part without tensors."""


class NoGpus:
    """For frameworks whose tensors are copied to host memory."""

    def usable(self) -> bool:
        return False

    def missing(self) -> str:
        return "uses a framework whose tensors go through host memory"

    def enable(self, on_all_ranks: bool) -> None:
        pass

    def enabled(self) -> bool:
        return False

    def own(self) -> Optional[Gpu]:
        return None
