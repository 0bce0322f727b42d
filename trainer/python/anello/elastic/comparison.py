"""The text by which ranks compare values. Equal values give equal texts, even if one of the values was pickled."""
from __future__ import annotations

import collections
import dataclasses
import datetime
import decimal
import enum
import fractions
import pathlib
from typing import Any

from ..tensors import is_torch
from .job import hash_of

_SCALARS = (type(None), bool, int, float, complex, str, bytes)
_WITH_REPR = (datetime.timedelta, decimal.Decimal, fractions.Fraction, pathlib.PurePath, range, slice)


def as_text(value: Any) -> bytes:
    """A text with the type of a value and all its contents. An object of another class gives only its type, because
    objects that are equal may have different attributes, such as caches."""
    kind = type(value)
    named = f"{kind.__module__}.{kind.__qualname__}".encode()
    if isinstance(value, _SCALARS):
        return named + b" " + repr(value).encode("utf-8", "surrogatepass")
    if isinstance(value, dict):
        parts = sorted(as_text(key) + b"=" + as_text(its) for key, its in value.items())
    elif isinstance(value, (set, frozenset)):
        parts = sorted(map(as_text, value))
    elif isinstance(value, (list, tuple, collections.deque)):
        parts = list(map(as_text, value))
    elif isinstance(value, enum.Enum):
        return named + b" " + str(value.name or value.value).encode("utf-8", "surrogatepass")
    elif isinstance(value, (datetime.date, datetime.time)):
        return named + b" " + value.isoformat().encode()
    elif isinstance(value, _WITH_REPR):
        return named + b" " + repr(value).encode("utf-8", "surrogatepass")
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        parts = [as_text(getattr(value, each.name, None)) for each in dataclasses.fields(value) if each.compare]
    elif is_torch(value):
        return named + str((value.dtype, tuple(value.shape))).encode() + hash_of(value.detach().cpu().contiguous())
    elif hasattr(value, "tobytes") and hasattr(value, "dtype"):  # of numpy
        if value.dtype.hasobject:
            return named + str(value.shape).encode() + as_text(value.tolist())
        return named + str((value.dtype, value.shape)).encode() + hash_of(bytearray(value.tobytes()))
    else:
        return named
    return b"%s %d(" % (named, len(parts)) + b", ".join(b"%d:" % len(each) + each for each in parts) + b")"
