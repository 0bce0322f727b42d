"""Numbers as tensors of one element: Python's bool, int and float, and numpy's scalars.

A number has no memory that an operation could write to. So a copy of the number is sent, and the verb returns the
result as a number of the same type.
"""
from __future__ import annotations

import ctypes
import math
import sys
from typing import Any, Sequence

from ._library import C
from .view import View, kind_of

_LEAST, _MOST = -2**63, 2**63 - 1


def is_number(value: Any) -> bool:
    """True for a number of Python or numpy that can be sent."""
    return isinstance(value, (int, float)) or is_numpy_scalar(value)


def is_numpy_scalar(value: Any) -> bool:
    """True for a scalar of numpy, without importing numpy: another thread may be importing it at this moment."""
    return isinstance(value, getattr(sys.modules.get("numpy"), "generic", ()))


def is_python_number(value: Any) -> bool:
    """True for a bool, an int or a float, but not for numpy.float64, which is a subclass of float."""
    return isinstance(value, (int, float)) and not is_numpy_scalar(value)


def is_masked(value: Any) -> bool:
    """True for an array of numpy.ma, and for its constant `masked`."""
    return isinstance(value, getattr(getattr(sys.modules.get("numpy"), "ma", None), "MaskedArray", ()))


def view_number(value: Any) -> View:
    """The view of a copy of a Python number. OverflowError if an int has more than 64 bits."""
    if isinstance(value, int) and not _LEAST <= value <= _MOST:
        raise OverflowError("an int is sent as 64 bits, and this one needs more: give a float, or use "
                            "allgather_object()")
    box, dtype = _box(value)
    return View(ctypes.addressof(box), (), dtype, "", box, lambda: box.value)


def _box(value: Any) -> Any:
    if isinstance(value, bool):
        return ctypes.c_bool(value), C.BOOL
    if isinstance(value, int):
        return ctypes.c_int64(value), C.I64
    return ctypes.c_double(value), C.F64


def for_reduction(value: Any, op: str, ranks: int) -> Any:
    """Converts a number for a reduction over `ranks` ranks.

    The average of ints is a float. OverflowError if the sum or product of `ranks` equal ints has more than 64
    bits: the engine's integers would wrap around.
    """
    if not isinstance(value, int):
        return value
    if op == "average":
        return float(value)
    most = {"sum": abs(value) * ranks, "product": abs(value) ** ranks if abs(value) < 2**63 else abs(value)}.get(op, 0)
    if most > _MOST:
        raise OverflowError(f"the {op} of such ints over {ranks} ranks may need more than 64 bits: give a float, or "
                            "use allgather_object()")
    return value


def empty_numbers(like: Any, shape: Sequence[int]) -> Any:
    """Memory for several Python numbers of the type of `like`."""
    return (type(_box(like)[0]) * math.prod(shape))()


def numbers_over(like: Any, address: int, count: int) -> Any:
    """The list of the Python numbers at an address."""
    return list((type(_box(like)[0]) * count).from_address(address))


def refuse_complex(value: Any) -> None:
    """TypeError: a complex number cannot be sent."""
    raise TypeError(f"{kind_of(value)} cannot be sent: send .real and .imag")
