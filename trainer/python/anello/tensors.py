"""Recognises tensors: numpy arrays, torch tensors, buffers (array.array, bytearray), and anything that speaks DLPack.

Neither numpy nor torch is imported here. Tensors lie in host memory, or where a caller says so in that of a GPU;
contiguous, in row-major order.
"""
from __future__ import annotations

import ctypes
import math
import sys
from typing import Any, NamedTuple, Optional, Sequence, Tuple

from . import dlpack
from ._library import C, Input, Tensor, lib

_NUMPY = {"f2": C.F16, "f4": C.F32, "f8": C.F64, "i1": C.I8, "u1": C.U8, "i2": C.I16, "u2": C.U16, "i4": C.I32,
          "u4": C.U32, "i8": C.I64, "u8": C.U64, "b1": C.BOOL}
_TORCH = {"torch.float16": C.F16, "torch.bfloat16": C.BF16, "torch.float32": C.F32, "torch.float64": C.F64,
          "torch.int8": C.I8, "torch.uint8": C.U8, "torch.int16": C.I16, "torch.uint16": C.U16, "torch.int32": C.I32,
          "torch.uint32": C.U32, "torch.int64": C.I64, "torch.uint64": C.U64, "torch.bool": C.BOOL}
_BUFFER = {"e": C.F16, "f": C.F32, "d": C.F64, "?": C.BOOL}
_SIGNED = {1: C.I8, 2: C.I16, 4: C.I32, 8: C.I64}
_UNSIGNED = {1: C.U8, 2: C.U16, 4: C.U32, 8: C.U64}


class View(NamedTuple):
    """Where a tensor's elements lie. `keep` holds the memory while the view lives."""

    address: int
    shape: Tuple[int, ...]
    dtype: int
    writable: bool
    keep: Any

    @property
    def item_bytes(self) -> int:
        """The size of an element."""
        return lib.anello_dtype_size(self.dtype)

    @property
    def count(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    def input(self) -> Any:
        """As anello_input."""
        return Input(self.address, self.count, self.dtype)

    def output(self) -> Any:
        """As anello_tensor. ValueError if the tensor is read-only."""
        if not self.writable:
            raise ValueError("the tensor is read-only; give a writable one")
        return Tensor(self.address, self.count, self.dtype)


NOTHING = View(0, (0,), C.F32, True, None)  # for an argument that is ignored


def is_torch(tensor: Any) -> bool:
    """True for a tensor of torch, without importing it."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(tensor, torch.Tensor)


def view(tensor: Any, gpu: Optional[int] = None) -> View:
    """Where a tensor's elements lie. TypeError or ValueError says why it cannot be used.

    Args:
        gpu: the number of the GPU on which a tensor of torch lies; None: host memory.
    """
    if is_torch(tensor):
        return _view_torch(tensor, gpu)
    interface = getattr(tensor, "__array_interface__", None)
    if interface is not None:
        return _view_array(tensor, interface)
    if hasattr(tensor, "__dlpack__"):
        return _view_dlpack(tensor)
    try:
        buffer = memoryview(tensor)
    except TypeError:
        raise TypeError(f"{type(tensor).__name__} is not a tensor: give a numpy array, a torch tensor, a buffer or an "
                        "object with __dlpack__") from None
    return _view_buffer(buffer)


def empty_like(tensor: Any, shape: Sequence[int]) -> Any:
    """A new tensor of the same library and type. TypeError if the library is neither numpy nor torch."""
    if is_torch(tensor):
        return tensor.detach().new_empty(tuple(shape))
    return _numpy_of(tensor).empty(tuple(shape), tensor.dtype)


def array_over(like: Any, address: int, shape: Sequence[int], owner: Any) -> Any:
    """A numpy array of the type of `like` over memory that lives as long as `owner`; not a copy.

    TypeError if `like` is not of numpy.
    """
    numpy = _numpy_of(like)
    memory = (ctypes.c_char * (math.prod(shape) * like.itemsize)).from_address(address)
    memory.owner = owner  # Python keeps it as long as the memory
    return numpy.frombuffer(memory, like.dtype).reshape(tuple(shape))


def _numpy_of(tensor: Any) -> Any:
    """The module numpy, if the tensor is an array of it."""
    numpy = sys.modules.get("numpy")
    if numpy is None or not isinstance(tensor, numpy.ndarray):
        raise TypeError(f"cannot make a {type(tensor).__name__} for the result: give a numpy array or a torch tensor, "
                        "or out= where the verb takes it")
    return numpy


def _view_torch(tensor: Any, gpu: Optional[int]) -> View:
    dtype = _TORCH.get(str(tensor.dtype))
    if dtype is None:
        raise TypeError(f"tensors of {tensor.dtype} cannot be sent; the types that can: {', '.join(_TORCH)}")
    if gpu is None and tensor.device.type != "cpu":
        raise ValueError(f"the tensor lies on {tensor.device}: copy it with .cpu()")
    if gpu is not None and (tensor.device.type, tensor.device.index) != ("cuda", gpu):
        raise ValueError(f"the tensor lies on {tensor.device}, and not on cuda:{gpu}")
    if tensor.is_sparse or not tensor.is_contiguous():
        raise ValueError("the tensor is not dense and contiguous: call .contiguous()")
    return View(tensor.data_ptr(), tuple(tensor.shape), dtype, True, tensor)


def _view_array(array: Any, interface: Any) -> View:
    typestr = interface["typestr"]
    dtype = _NUMPY.get(typestr[1:])
    if dtype is None or typestr[0] == (">" if sys.byteorder == "little" else "<"):
        raise TypeError(f"arrays of {typestr} cannot be sent; the types that can, in the byte order of this machine: "
                        f"{', '.join(_NUMPY)}")
    if interface.get("strides") is not None and not _row_major(interface, int(typestr[2:])):
        raise ValueError("the array is not contiguous: call numpy.ascontiguousarray")
    address, readonly = interface["data"]
    return View(address, tuple(interface["shape"]), dtype, not readonly, array)


def _row_major(interface: Any, item_bytes: int) -> bool:
    expected = item_bytes
    for size, stride in zip(reversed(interface["shape"]), reversed(interface["strides"])):
        if size > 1 and stride != expected:
            return False
        expected *= size
    return True


def _view_buffer(buffer: memoryview) -> View:
    code = buffer.format.lstrip("<@=")
    dtype = _BUFFER.get(code)
    if dtype is None and len(code) == 1:
        sizes = _SIGNED if code in "bhilqn" else _UNSIGNED if code in "BHILQN" else {}
        dtype = sizes.get(buffer.itemsize)
    if dtype is None:
        raise TypeError(f"buffers of format {code!r} cannot be sent")
    if not buffer.c_contiguous:
        raise ValueError("the buffer is not contiguous")
    if buffer.readonly:
        copy = (ctypes.c_char * buffer.nbytes).from_buffer_copy(buffer)
        return View(ctypes.addressof(copy), buffer.shape, dtype, False, copy)
    if buffer.nbytes == 0:
        return View(0, buffer.shape, dtype, True, buffer)
    memory = (ctypes.c_char * buffer.nbytes).from_buffer(buffer)
    return View(ctypes.addressof(memory), buffer.shape, dtype, True, memory)


def _view_dlpack(tensor: Any) -> View:
    capsule = tensor.__dlpack__()
    given = dlpack.read(capsule)
    dtype = dlpack.DTYPES.get((given.code, given.bits))
    if dtype is None or given.lanes != 1:
        raise TypeError(f"tensors of DLPack's type {given.code} with {given.bits} bits cannot be sent")
    if given.device_type != dlpack.CPU:
        raise ValueError("the tensor does not lie in host memory: copy it there")
    shape = tuple(given.shape[k] for k in range(given.ndim))
    if given.strides:
        strides = [given.strides[k] for k in range(given.ndim)]
        if not _row_major({"shape": shape, "strides": strides}, 1):
            raise ValueError("the tensor is not contiguous")
    # The capsule was not consumed: it frees its tensor when it dies.
    return View((given.data or 0) + given.byte_offset, shape, dtype, True, (tensor, capsule))
