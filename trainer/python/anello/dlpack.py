"""DLPack: reads tensors of any library without a copy, and makes tensors of torch from the engine's memory."""
from __future__ import annotations

import ctypes
import sys
from typing import Any, Tuple

from ._library import lib
from .element_types import BY_DLPACK

_TYPE_OF = {dtype: code for code, dtype in BY_DLPACK.items()}
CPU = 1
HOST = (CPU, 3, 11)  # CPU and memory that is pinned for a GPU
_UNSIGNED, COMPLEX = 1, 5
# Type codes that older versions of torch do not accept: torch gets their elements as bytes.
_BYTES_OF_TORCH = {6: "bool", 10: "float8_e4m3fn", 12: "float8_e5m2"}
_READ_ONLY, _IS_COPIED = 1, 2


class Tensor(ctypes.Structure):
    """DLTensor."""

    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


class _Managed(ctypes.Structure):
    """DLManagedTensor."""

    _fields_ = [("tensor", Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class _Versioned(ctypes.Structure):
    """DLManagedTensorVersioned."""

    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p),
                ("deleter", ctypes.c_void_p), ("flags", ctypes.c_uint64), ("tensor", Tensor)]


class _Block(_Managed):
    """A DLManagedTensor at the start of the memory that it describes: one call of the library frees the tensor and the
    memory."""

    _fields_ = [("shape", ctypes.c_int64), ("stride", ctypes.c_int64)]


_HEAD_BYTES = 128  # size of _Block; a multiple of the alignment that libraries of tensors need

_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype = ctypes.c_void_p
_capsule_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype = ctypes.py_object
_new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_is_capsule = ctypes.pythonapi.PyCapsule_IsValid
_is_capsule.argtypes = [ctypes.py_object, ctypes.c_char_p]


def read(capsule: Any) -> Tuple[Tensor, bool]:
    """The tensor of a capsule, and whether the tensor is writable. The tensor is valid as long as the capsule lives and
    nobody consumes the capsule.

    A capsule without a version cannot state whether it is a copy, and counts as read-only, because writing to a copy
    would not change the program's tensor.
    """
    if not _is_capsule(capsule, b"dltensor_versioned"):
        return Tensor.from_address(_capsule_pointer(capsule, b"dltensor")), False
    managed = _Versioned.from_address(_capsule_pointer(capsule, b"dltensor_versioned"))
    if managed.major != 1:
        raise TypeError(f"DLPack {managed.major}.{managed.minor} is not supported: 1.0 was asked for")
    return managed.tensor, not managed.flags & (_READ_ONLY | _IS_COPIED)


def to_torch(managed: int) -> Any:
    """Makes a tensor of torch from a DLManagedTensor. If torch refuses the DLManagedTensor, this function frees it.

    torch frees the tensor without Python, so the tensor may outlive the interpreter, for example as a part of a graph
    that was never freed. To free a tensor of torch.frombuffer, torch would need Python, and without an interpreter it
    would block forever.
    """
    torch = sys.modules["torch"]
    given = Tensor.from_address(managed)
    viewed_as = _BYTES_OF_TORCH.get(given.code)
    if viewed_as:
        given.code = _UNSIGNED
    capsule = _new_capsule(managed, b"dltensor", None)
    try:
        made = torch.utils.dlpack.from_dlpack(capsule)
    except BaseException:
        if _is_capsule(capsule, b"dltensor"):  # otherwise torch has consumed the capsule, and renamed it
            ctypes.CFUNCTYPE(None, ctypes.c_void_p)(_Managed.from_address(managed).deleter)(managed)
        raise
    return made.view(getattr(torch, viewed_as)) if viewed_as else made


def zeros(dtype: int, count: int) -> Any:
    """A flat tensor of torch filled with zeros, in memory that other ranks of the host can read directly."""
    memory = ctypes.c_void_p()
    lib.anello_allocate(_HEAD_BYTES + count * lib.anello_dtype_size(dtype), ctypes.byref(memory))
    address = memory.value or 0
    block = _Block.from_address(address)
    block.shape, block.stride = count, 1
    block.tensor.data, block.tensor.device_type, block.tensor.ndim = address + _HEAD_BYTES, CPU, 1
    block.tensor.code, block.tensor.bits, block.tensor.lanes = *_TYPE_OF[dtype], 1
    block.tensor.shape, block.tensor.strides = _pointers(block)
    block.deleter = ctypes.cast(lib.anello_deallocate, ctypes.c_void_p)
    return to_torch(address)


def _pointers(block: _Block) -> Tuple[Any, Any]:
    begin = ctypes.addressof(block)
    return tuple(ctypes.cast(begin + field.offset, ctypes.POINTER(ctypes.c_int64))  # type: ignore[return-value]
                 for field in (_Block.shape, _Block.stride))
