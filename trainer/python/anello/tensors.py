"""Converts every object that a verb takes to a View, or refuses it before anything is sent."""
from __future__ import annotations

import ctypes
import math
import sys
from typing import Any, Callable, Dict, Optional, Sequence

from . import readers
from ._library import Tensor
from .scalars import (empty_numbers, for_reduction, is_masked, is_numpy_scalar, is_python_number, numbers_over,
                      refuse_complex, view_number)
from .view import NOTHING, View, kind_of

__all__ = ["NOTHING", "View", "array_over", "empty_like", "in_place_array", "is_torch", "kind_of", "made_result",
           "reduced_view", "require_results", "results", "view"]

_readers: Dict[type, Callable[[Any], View]] = {}  # by type, filled when first used


def is_torch(tensor: Any) -> bool:
    """True for a tensor of torch, without importing torch: another thread may be importing it at this moment."""
    return isinstance(tensor, getattr(sys.modules.get("torch"), "Tensor", ()))


def view(tensor: Any, gpu: Optional[int] = None) -> View:
    """The view of a tensor's elements; a View is returned unchanged. TypeError or ValueError says what is wrong.

    Args:
        gpu: the number of the GPU on which a tensor of torch lies; None: host memory.
    """
    if isinstance(tensor, View):
        return tensor
    if gpu is None:
        return (_readers.get(type(tensor)) or _reader_of(tensor))(tensor)
    if not is_torch(tensor):
        raise ValueError(f"{kind_of(tensor)} does not lie on cuda:{gpu}: give a tensor of torch, or omit gpu=")
    return readers.view_torch(tensor, gpu)


def _reader_of(tensor: Any) -> Callable[[Any], View]:
    reader: Callable[[Any], View]
    if is_torch(tensor):
        reader = readers.view_torch
    elif is_masked(tensor):
        reader = readers.refuse_masked
    elif isinstance(tensor, getattr(sys.modules.get("numpy"), "ndarray", ())):
        reader = readers.view_array
    elif is_numpy_scalar(tensor):
        reader = readers.view_numpy_scalar
    elif isinstance(tensor, (int, float)):
        reader = view_number
    else:
        return _view_foreign
    _readers[type(tensor)] = reader
    return reader


def _view_foreign(tensor: Any) -> View:
    if isinstance(tensor, complex):
        refuse_complex(tensor)
    if isinstance(tensor, type):
        raise TypeError(f"the class {tensor.__qualname__} is not a tensor: give an object of it")
    if getattr(tensor, "__array_interface__", None) is not None:
        return readers.view_interface(tensor)
    if hasattr(tensor, "__dlpack__"):
        return readers.view_dlpack(tensor)
    try:
        buffer = memoryview(tensor)
    except TypeError:
        raise TypeError(f"{kind_of(tensor)} is not a tensor: give {_instead_of(tensor)}") from None
    return readers.view_buffer(buffer)


def _instead_of(tensor: Any) -> str:
    if hasattr(tensor, "numpy"):
        return "its .numpy()"
    if hasattr(tensor, "__array__"):
        return "numpy.array(it)"
    return "a numpy array, a torch tensor, a number, a buffer or an object with __dlpack__"


def in_place_array(views: Sequence[View]) -> Any:
    """Converts a list of tensors, which an operation changes in place, for the library."""
    return (Tensor * len(views))(*[each.in_place() for each in views])


def results(tensors: Sequence[Any], views: Sequence[View]) -> Callable[[], Any]:
    """Returns a function that makes the result of a verb which changed a list in place: the list, or a list of the new
    numbers."""
    if all(each.value is None for each in views):
        return lambda: tensors
    return lambda: [tensor if each.value is None else each.value() for tensor, each in zip(tensors, views)]


def reduced_view(tensor: Any, op: str, ranks: int) -> View:
    """The view of a tensor, or of a number converted for a reduction over `ranks` ranks."""
    found = view(tensor)
    return found if found.value is None else view(for_reduction(tensor, op, ranks))


def empty_like(tensor: Any, shape: Sequence[int]) -> Any:
    """A new tensor of the same library and type. TypeError if the library is neither numpy nor torch.

    For a Python number, the result is an array of ctypes. For a View, it is a View without memory; then `shape` has no
    elements.
    """
    if isinstance(tensor, View):
        return View(0, tuple(shape), tensor.dtype, "", None)
    if is_torch(tensor):
        return tensor.detach().new_empty(tuple(shape))
    if is_python_number(tensor):
        return empty_numbers(tensor, shape)
    return _numpy_of(tensor).empty(tuple(shape), tensor.dtype)


def require_results(tensor: Any) -> None:
    """TypeError if no tensor of this kind can be made for a result."""
    if not is_torch(tensor) and not is_python_number(tensor) and not isinstance(tensor, View):
        _numpy_of(tensor)


def made_result(tensor: Any, made: Any) -> Callable[[], Any]:
    """Returns a function that makes a verb's result from the tensor of empty_like(): a list for Python numbers."""
    if is_python_number(tensor):
        return lambda: list(made)
    return lambda: made


def array_over(like: Any, address: int, shape: Sequence[int], owner: Any) -> Any:
    """A numpy array of the type of `like`, over memory that lives as long as `owner`. Copies nothing.

    For a Python number it is a list, for a View another View. TypeError if `like` is none of these.
    """
    if isinstance(like, View):
        return View(address, tuple(shape), like.dtype, "", owner)
    if is_python_number(like):
        return numbers_over(like, address, math.prod(shape))
    numpy = _numpy_of(like)
    memory = (ctypes.c_char * (math.prod(shape) * like.itemsize)).from_address(address)
    memory.owner = owner  # so that the owner lives as long as the memory
    return numpy.frombuffer(memory, like.dtype).reshape(tuple(shape))


def _numpy_of(tensor: Any) -> Any:
    """The module numpy, if the tensor is an array or a scalar of numpy."""
    numpy = sys.modules.get("numpy")
    if not isinstance(tensor, getattr(numpy, "ndarray", ())) and not is_numpy_scalar(tensor):
        raise TypeError(f"cannot make a new {kind_of(tensor)} for the result: give a numpy array or a torch tensor, "
                        "or out= where the verb takes it")
    return numpy
