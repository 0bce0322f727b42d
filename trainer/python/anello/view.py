"""A view: the address of a tensor's elements, the owner of that memory, and whether it may be written."""
from __future__ import annotations

import ctypes
import math
from typing import Any, Callable, NamedTuple, Optional, Tuple

from ._library import C, Input, Tensor
from .element_types import ITEM_BYTES


class View(NamedTuple):
    """Describes where a tensor's elements lie.

    Attributes:
        fixed: the reason why an operation may not write the elements, with a remedy; empty if it may write them.
        keep: holds the memory while the view lives.
        value: only for a number: reads the view's memory as a number of the same type.
    """

    address: int
    shape: Tuple[int, ...]
    dtype: int
    fixed: str
    keep: Any
    value: Optional[Callable[[], Any]] = None

    @property
    def item_bytes(self) -> int:
        """The size of an element."""
        return ITEM_BYTES[self.dtype]

    @property
    def count(self) -> int:  # type: ignore[override]  # replaces tuple's method, which counts equal items
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def rows(self) -> int:
        """The first dimension; 1 without dimensions."""
        return self.shape[0] if self.shape else 1

    @property
    def writable(self) -> bool:
        """True if an operation may write the tensor's memory."""
        return not self.fixed and self.value is None

    def input(self) -> Any:
        """The view as anello_input."""
        return Input(self.address, math.prod(self.shape), self.dtype)

    def require_unfixed(self) -> None:
        """ValueError if a result must not replace the input."""
        if self.fixed:
            raise ValueError(self.fixed)

    def require_output(self) -> None:
        """TypeError or ValueError if the tensor must not be written."""
        if self.value is not None:
            raise TypeError(f"{kind_of(self.value())} has no memory for a result: give a tensor, for example of numpy "
                            "or torch")
        self.require_unfixed()

    def in_place(self) -> Any:
        """The view as anello_tensor, for a result that replaces the input; see require_unfixed()."""
        self.require_unfixed()
        return Tensor(self.address, math.prod(self.shape), self.dtype)

    def output(self) -> Any:
        """The view as anello_tensor, for a result; see require_output()."""
        self.require_output()
        return Tensor(self.address, math.prod(self.shape), self.dtype)

    def result(self, tensor: Any) -> Callable[[], Any]:
        """Returns a function that makes the result of a verb which worked in place: the tensor, or the new number."""
        return self.value or (lambda: tensor)


def kind_of(tensor: Any) -> str:
    """The type of an object, with the name of its library, for messages."""
    kind = type(tensor)
    library = kind.__module__.split(".")[0]
    return kind.__qualname__ if library == "builtins" else f"{library}.{kind.__qualname__}"


def aligned(found: View, tensor: Any) -> View:
    """Returns the view; if its elements are not at multiples of their size, a view of a copy."""
    if found.address % ITEM_BYTES[found.dtype] == 0:
        return found
    elements = ctypes.string_at(found.address, found.count * found.item_bytes)
    copy = ctypes.create_string_buffer(elements, 1 + len(elements))
    return found._replace(address=ctypes.addressof(copy), keep=copy, fixed=unaligned(tensor))


def unaligned(tensor: Any) -> str:
    """Says why a tensor at an unaligned address is not written."""
    return f"the elements of this {kind_of(tensor)} do not lie at a multiple of their size: give a copy(), or out="


NOTHING = View(0, (0,), C.F32, "", None)  # passed for an argument that is ignored
