"""Converts arguments of verbs for the library. An error names the argument and its allowed values."""
from __future__ import annotations

import ctypes
import operator
import os
import reprlib
from typing import Any, List, Optional, Sequence

from ._library import C, default
from .errors import InvalidArgument
from .scalars import is_masked

_OPS = {"sum": C.SUM, "average": C.AVERAGE, "min": C.MIN, "max": C.MAX, "product": C.PRODUCT, "bit_and": C.BIT_AND,
        "bit_or": C.BIT_OR, "bit_xor": C.BIT_XOR}
_WIRES = {None: 0, "f16": C.F16, "bf16": C.BF16}


def op_code(op: str) -> int:
    """The number of a reduction. ValueError lists the reductions' names."""
    found = _OPS.get(op) if isinstance(op, str) else None
    if found is None:
        raise ValueError(f"op must be one of {', '.join(_OPS)}, not {reprlib.repr(op)}")
    return found


def wire_code(wire: Optional[str]) -> int:
    """The number of the type in which elements are sent; 0: the elements' own type."""
    found = _WIRES.get(wire) if wire is None or isinstance(wire, str) else None
    if found is None:
        raise ValueError(f"wire must be 'f16', 'bf16' or None, not {reprlib.repr(wire)}")
    return found


def factor(which: str, value: float) -> float:
    """A number as a float. TypeError names the argument."""
    if type(value) is float:  # the usual case, and the fastest
        return value
    is_complex = getattr(getattr(value, "dtype", None), "kind", "") == "c"
    if not is_complex and not is_masked(value) and not isinstance(value, (str, bytes, bytearray)):
        try:
            return float(value)
        except (TypeError, ValueError, OverflowError, RuntimeError):  # torch raises RuntimeError
            pass
    raise TypeError(f"{which} must be a number, not {reprlib.repr(value)}")


def index(value: Any) -> Optional[int]:
    """An integer of any library as an int; None if it is not an integer."""
    try:
        return operator.index(value)
    except (TypeError, RuntimeError, ValueError):  # RuntimeError and ValueError are raised by arrays
        return None


def integer(which: str, value: Any, least: int, most: int) -> int:
    """An integer of any library as an int. TypeError if it is not an integer, ValueError if it is out of range."""
    number = index(value)
    if number is None:
        raise TypeError(f"{which} must be an integer, not {reprlib.repr(value)}")
    if not least <= number <= most:
        raise InvalidArgument(f"{which} must be from {least} to {most}, not {reprlib.repr(number)}",
                              "invalid_argument")
    return number


def rank(which: str, value: Any, size: int) -> int:
    """The number of a rank of a group of `size` ranks. TypeError or ValueError names the argument."""
    number = index(value)
    if number is None:
        raise TypeError(f"{which} must be the number of a rank, from 0 to {size - 1}, not {reprlib.repr(value)}")
    if not 0 <= number < size:
        raise InvalidArgument(f"{which} {reprlib.repr(number)} is not one of {size} ranks, whose numbers begin at 0",
                              "invalid_argument")
    return number


def ranks(which: str, values: Any, size: int) -> Any:
    """Converts a list of ranks for the library."""
    numbers = [rank(f"{which}: rank", each, size) for each in _sequence(which, values)]
    return (ctypes.c_int * len(numbers))(*numbers)


def text(which: str, value: Optional[str]) -> Optional[bytes]:
    """Converts a text for the library; None if it is empty or None."""
    if not isinstance(value, str):
        if value is None:
            return None
        raise TypeError(f"{which} must be a string, not {reprlib.repr(value)}")
    if "\0" in value:  # the library would read only the part before it
        raise ValueError(f"{which} must not contain a zero byte: {reprlib.repr(value)}")
    return value.encode() or None


def readable(reason: str) -> bytes:
    """Converts a message for the library. Any characters are accepted, so that every failure can be reported."""
    return reason.encode("utf-8", "backslashreplace").replace(b"\0", b"\\x00")


def settings(values: Any) -> List[bytes]:
    """Converts settings for the library. TypeError if they are not a list of texts."""
    if not isinstance(values, (list, tuple)) or not all(isinstance(each, (str, bytes)) for each in values):
        raise TypeError(f"settings must be a list, for example [\"ANELLO_RANK=3\"], not {reprlib.repr(values)}")
    return [os.fsencode(each) for each in values]


def file_name(which: str, value: Any) -> bytes:
    """Converts the name of a file for the library. TypeError or ValueError names the argument."""
    try:
        name = os.fsencode(value)
    except TypeError:
        raise TypeError(f"{which} must be the name of a file, not {reprlib.repr(value)}") from None
    if b"\0" in name:
        raise ValueError(f"{which} must not contain a zero byte: {reprlib.repr(value)}")
    return name


def counts_array(counts: Sequence[int]) -> Any:
    """Converts numbers of elements for the library."""
    return (ctypes.c_uint64 * len(counts))(*counts)


def counts_list(which: str, counts: Any) -> List[int]:
    """Numbers of elements as a list. TypeError or ValueError names the argument."""
    numbers = []
    for each in _sequence(which, counts):
        number = index(each)
        if number is None:
            raise TypeError(f"{which} must be integers, not {reprlib.repr(each)}")
        numbers.append(number)
    if any(each < 0 for each in numbers):
        raise ValueError(f"{which} must not be negative: {reprlib.repr(numbers)}")
    if any(each >= 2**64 for each in numbers):
        raise ValueError(f"{which} must be less than 2**64: {reprlib.repr(numbers)}")
    return numbers


def counts_of_ranks(which: str, counts: Optional[Sequence[int]], size: int) -> Any:
    """Converts a list of one number for each rank: the library reads one number for each rank. None without counts."""
    if counts is None:
        return None
    numbers = counts_list(which, counts)
    if len(numbers) != size:
        raise ValueError(f"{which} must have one number for each of the {size} ranks, not {len(numbers)}: "
                         f"{reprlib.repr(numbers)}")
    return counts_array(numbers)


def options(name: Optional[str] = None, wire: Optional[str] = None, prescale: float = 1.0, postscale: float = 1.0,
            counts: Optional[Sequence[int]] = None, consistency_token: int = 0) -> Any:
    """The options of a call of a group. TypeError or ValueError names the argument."""
    made = default("anello_options")
    made.name = text("name", name)
    made.wire = wire_code(wire)
    made.prescale, made.postscale = factor("prescale", prescale), factor("postscale", postscale)
    if type(consistency_token) is not int or consistency_token != 0:
        made.consistency_token = integer("consistency_token", consistency_token, 0, 2**64 - 1)
    if counts is not None:
        numbers = counts_list("counts", counts)
        made.held = counts_array(numbers)  # Python keeps it as long as `made`
        made.counts, made.counts_size = ctypes.addressof(made.held), len(numbers)
    return made


def _sequence(which: str, values: Any) -> List[Any]:
    try:
        if not isinstance(values, (str, bytes)):
            return list(values)
    except TypeError:
        pass
    raise TypeError(f"{which} must be a list of integers, not {reprlib.repr(values)}")
