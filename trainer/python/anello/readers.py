"""Finds the memory of an object's elements. The object is of torch or numpy, has __array_interface__ or DLPack, or is a
buffer.

Each reader returns a View, or raises TypeError or ValueError; the message names the type of the object and a remedy.
Neither torch nor numpy is imported here. Tensors must be contiguous, in row-major order, in host memory or, if the
caller allows that, in GPU memory.
"""
from __future__ import annotations

import ctypes
import math
import sys
from typing import Any, Dict, Optional, Sequence, Tuple

from . import dlpack
from ._library import C
from .element_types import BY_DLPACK, BY_NAME, BY_TYPESTR, ITEM_BYTES, SIGNED, UNSIGNED
from .view import View, aligned, kind_of, unaligned

_TORCH = {f"torch.{name}": dtype for name, dtype in BY_NAME.items()}
_WITHOUT_BUFFER = set(BY_NAME.values()) - set(BY_TYPESTR.values())  # types that Python's buffers lack
_BUFFER = {"e": C.F16, "f": C.F32, "d": C.F64, "?": C.BOOL}
_PARTS = {"to_local": "its .to_local()", "get_mask": "its .get_data() and .get_mask(), one after the other"}
_dtypes: Dict[Any, int] = {}  # element types of numpy and torch, filled when first used


def view_torch(tensor: Any, gpu: Optional[int] = None) -> View:
    """A tensor of torch.

    The view holds the tensor's storage, because the program may give the tensor another storage during an operation.
    """
    plain = view_plain(tensor) if gpu is None else None
    if plain is not None:
        return plain
    dtype = _dtypes.get(tensor.dtype) or _note_torch_dtype(tensor)
    if tensor.layout is not _strided() or tensor.is_nested:
        require_dense(tensor)
    if not tensor.is_cpu if gpu is None else (tensor.device.type, tensor.device.index) != ("cuda", gpu):
        _refuse_device(tensor, gpu)
    if not tensor.is_contiguous():
        raise ValueError("the tensor is not contiguous: call .contiguous()")
    fixed = ""
    if tensor.is_neg():  # the values in memory have the opposite sign
        tensor, fixed = tensor.detach().resolve_neg(), ("the signs of the tensor are not in its memory, as in the "
                                                        "imaginary part of .conj(): give its resolve_neg(), or out=")
    address, storage = _memory_of(tensor)
    found = View(address, tuple(tensor.shape), dtype, fixed, storage)
    return found if gpu is not None else aligned(found, tensor)


def view_plain(tensor: Any) -> Optional[View]:
    """Does the same as view_torch() for a tensor that needs neither a copy nor a further check (nearly all); None for
    others."""
    if (type(tensor) is not sys.modules["torch"].Tensor or tensor.is_nested or not tensor.is_cpu
            or tensor.layout is not _strided() or tensor.is_neg() or not tensor.is_contiguous()):
        return None
    dtype = _dtypes.get(tensor.dtype)
    if dtype is None:
        return None
    address, storage = _memory_of(tensor)
    return View(address, tuple(tensor.shape), dtype, "", storage) if address % ITEM_BYTES[dtype] == 0 else None


def require_dense(tensor: Any) -> None:
    """Raises TypeError or ValueError unless the memory of a tensor of torch has the tensor's values as a plain
    array."""
    layout = str(tensor.layout)
    if tensor.is_nested or layout == "torch.jagged":
        raise ValueError("a nested tensor of torch cannot be sent: send its .values(), or the tensors of .unbind()")
    if layout != "torch.strided":
        raise ValueError(f"a tensor of torch with the layout {layout} cannot be sent: call .to_dense()")
    if tensor.device.type == "meta":
        raise ValueError("the tensor lies on meta, and has no data")
    if tensor.is_quantized:
        raise TypeError(f"a quantized tensor ({tensor.dtype}) cannot be sent: call .dequantize(), or send its "
                        ".int_repr()")


def _note_torch_dtype(tensor: Any) -> int:
    dtype = _TORCH.get(str(tensor.dtype))
    if dtype is None:
        require_dense(tensor)
        remedy = "; send torch.view_as_real(tensor)" if tensor.is_complex() else ""
        raise TypeError(f"tensors of {tensor.dtype} cannot be sent; the types that can: {', '.join(_TORCH)}{remedy}")
    _dtypes[tensor.dtype] = dtype
    return dtype


def _strided() -> Any:
    return sys.modules["torch"].strided


def _memory_of(tensor: Any) -> Tuple[int, Any]:
    """The address of a tensor of torch, and its storage."""
    try:
        address = tensor.data_ptr()
        storage = tensor.untyped_storage() if hasattr(tensor, "untyped_storage") else tensor._storage()
    except RuntimeError:
        address = storage = 0
    if address == 0 and math.prod(tensor.shape) > 0:
        remedy = next((what for method, what in _PARTS.items() if hasattr(tensor, method)),
                      "a tensor with data, for example its .clone()")
        raise ValueError(f"this {kind_of(tensor)} has no memory of its own: give {remedy}")
    if address and (tensor.storage_offset() + tensor.numel()) * tensor.element_size() > storage.nbytes():
        raise ValueError("the storage of the tensor was made smaller than the tensor: give one with all of its data")
    return address, storage


def _refuse_device(tensor: Any, gpu: Optional[int]) -> None:
    require_dense(tensor)
    if gpu is None:
        raise ValueError(f"the tensor lies on {tensor.device}: copy it with .cpu()")
    raise ValueError(f"the tensor lies on {tensor.device}, and not on cuda:{gpu}")


def view_array(array: Any) -> View:
    """An array of numpy."""
    dtype = _dtypes.get(array.dtype) or _note_numpy_dtype(array)
    flags = array.flags
    if not flags.c_contiguous:
        raise ValueError("the array is not contiguous: call numpy.ascontiguousarray")
    fixed = "" if flags.writeable else _read_only(array)
    if not flags.aligned:
        array, fixed = array.copy(), unaligned(array)
    if fixed or array.size == 0 or dtype in _WITHOUT_BUFFER:
        return View(array.__array_interface__["data"][0], array.shape, dtype, fixed, array)
    memory = ctypes.c_char.from_buffer(array)  # takes a third of the time of __array_interface__
    return View(ctypes.addressof(memory), array.shape, dtype, "", memory)


def view_numpy_scalar(scalar: Any) -> View:
    """A scalar of numpy, for example numpy.float64; a copy of it is sent."""
    copy = sys.modules["numpy"].array(scalar)
    return view_array(copy)._replace(value=lambda: copy[()])


def refuse_masked(array: Any) -> View:
    """TypeError for an array of numpy.ma: its elements would be sent without its mask."""
    raise TypeError(f"the mask of a {kind_of(array)} would be lost: give its .filled(value), or .data and .mask one "
                    "after the other")


def _read_only(tensor: Any) -> str:
    return f"this {kind_of(tensor)} is read-only: give a writable copy, or out="


def _note_numpy_dtype(array: Any) -> int:
    dtype = BY_NAME.get(array.dtype.name) if array.dtype.isnative and array.dtype.char != "V" else None
    if dtype is None:
        remedy = "; send .real and .imag" if array.dtype.kind == "c" else ""
        raise TypeError(_no_type(array.dtype.str) + remedy)
    _dtypes[array.dtype] = dtype
    return dtype


def _dtype_of(typestr: str) -> Optional[int]:
    swapped = typestr[0] == (">" if sys.byteorder == "little" else "<")
    return None if swapped else BY_TYPESTR.get(typestr[1:])


def _no_type(typestr: str) -> str:
    return (f"arrays of {typestr} cannot be sent; the types that can, in the byte order of this machine: "
            f"{', '.join(BY_TYPESTR)}")


def view_interface(owner: Any) -> View:
    """An object with __array_interface__ that is not numpy's.

    The protocol requires that the object owns its memory. But many objects make new memory at each access to the
    attribute, and free this memory at once. So an address is used only if it is certain which object holds the memory;
    see _holder_of().
    """
    interface = owner.__array_interface__
    typestr, shape = interface["typestr"], tuple(interface["shape"])
    dtype = _dtype_of(typestr)
    if dtype is None:
        raise TypeError(_no_type(typestr))
    if interface.get("mask") is not None:
        raise TypeError(f"the mask of {kind_of(owner)} would be lost: give its elements and its mask one after the "
                        "other")
    item_bytes = int(typestr[2:])
    if interface.get("strides") is not None and not _row_major(shape, interface["strides"], item_bytes):
        raise ValueError("the array is not contiguous: call numpy.ascontiguousarray")
    data = interface.get("data")
    if isinstance(data, int):
        raise TypeError(f"the __array_interface__ of {kind_of(owner)} has a number as data: it must be a pair of an "
                        "address and whether it is read-only, or a buffer")
    if isinstance(data, tuple):
        address, read_only = data
        holder = _holder_of(owner, address, math.prod(shape) * item_bytes)
        return aligned(View(address, shape, dtype, _read_only(owner) if read_only else "", holder), owner)
    return _view_bytes(owner, owner if data is None else data, shape, dtype, interface.get("offset", 0))


def _holder_of(owner: Any, address: int, size: int) -> Any:
    """An object that keeps the memory at an address. TypeError if neither the owner nor its attributes do."""
    stored = getattr(owner, "__dict__", {})
    if size == 0 or "__array_interface__" in stored:
        return owner
    for each in (owner, *stored.values()):
        try:
            found = _memory_in(each)
        except (TypeError, ValueError, BufferError):  # it does not export a buffer
            continue
        # An object may make new memory for each access, and store that memory. Then the second access gives another
        # address.
        if (found.address <= address and address + size <= found.address + found.count * found.item_bytes
                and owner.__array_interface__["data"][0] == address):
            return owner, found.keep
    raise TypeError(f"{kind_of(owner)} does not hold the memory that its __array_interface__ describes: give "
                    "numpy.asarray(it)")


def _memory_in(holder: Any) -> View:
    """The memory of an array of numpy or of a buffer. Raises TypeError for a read-only buffer, because it would be
    copied."""
    if isinstance(holder, getattr(sys.modules.get("numpy"), "ndarray", ())):
        return view_array(holder)
    buffer = memoryview(holder)
    if buffer.readonly:
        raise TypeError
    return view_buffer(buffer.cast("B"))


def _view_bytes(owner: Any, data: Any, shape: Sequence[int], dtype: int, offset: int) -> View:
    """Elements in an object with the buffer protocol. The view holds this object."""
    found = view_buffer(memoryview(data).cast("B"), owner=owner)
    moved = View(found.address + offset, tuple(shape), dtype, found.fixed, found.keep)
    if offset < 0 or offset + moved.count * moved.item_bytes > found.count:
        raise ValueError(f"the __array_interface__ of {kind_of(owner)} describes more memory than there is")
    return aligned(moved, owner)


def _row_major(shape: Sequence[int], strides: Sequence[int], item: int) -> bool:
    expected = item
    for size, stride in zip(reversed(shape), reversed(strides)):
        if size > 1 and stride != expected:
            return False
        expected *= size
    return True


def view_buffer(buffer: memoryview, owner: Any = None) -> View:
    """A view of a buffer. The buffer cannot change its size while the view lives. A read-only buffer is copied."""
    shape = buffer.shape or ()
    code = buffer.format.lstrip("<@=")
    dtype = _BUFFER.get(code)
    if dtype is None and len(code) == 1:
        sizes = SIGNED if code in "bhilqn" else UNSIGNED if code in "BHILQN" else {}
        dtype = sizes.get(buffer.itemsize)
    if dtype is None:
        raise TypeError(f"buffers of format {code!r} cannot be sent")
    if not buffer.c_contiguous:
        raise ValueError("the buffer is not contiguous")
    owner = buffer.obj if owner is None else owner
    if buffer.readonly:
        copy = (ctypes.c_char * buffer.nbytes).from_buffer_copy(buffer)
        return View(ctypes.addressof(copy), shape, dtype, _read_only(owner), copy)
    if buffer.nbytes == 0:
        return View(0, shape, dtype, "", buffer)
    memory = (ctypes.c_char * buffer.nbytes).from_buffer(buffer)
    return aligned(View(ctypes.addressof(memory), shape, dtype, "", memory), owner)


def view_dlpack(tensor: Any) -> View:
    """A tensor of a library that supports DLPack.

    Only the newer protocol can declare that a tensor is writable. TensorFlow and JAX use the older one: their tensors
    are immutable, and may share their memory with other tensors.
    """
    if getattr(getattr(tensor, "dtype", None), "name", "") in ("string", "resource", "variant"):
        # __dlpack__() of a TensorFlow tensor of this type ends the process.
        raise TypeError(f"{kind_of(tensor)} of {tensor.dtype.name} cannot be sent: use allgather_object() or "
                        "broadcast_object()")
    capsule = _capsule_of(tensor)
    given, may_write = dlpack.read(capsule)
    dtype = BY_DLPACK.get((given.code, given.bits))
    if dtype is None or given.lanes != 1:
        remedy = "; send its real and its imaginary part" if given.code == dlpack.COMPLEX else ""
        raise TypeError(f"tensors of {getattr(tensor, 'dtype', 'another type')} (DLPack's type {given.code} with "
                        f"{given.bits} bits) cannot be sent{remedy}")
    if given.device_type not in dlpack.HOST:
        raise ValueError("the tensor does not lie in host memory: copy it there")
    shape = tuple(given.shape[k] for k in range(given.ndim))
    if given.strides and not _row_major(shape, [given.strides[k] for k in range(given.ndim)], 1):
        raise ValueError("the tensor is not contiguous")
    fixed = "" if may_write else (f"{kind_of(tensor)} does not state by DLPack that it may be written: give out=, or a "
                                  "writable copy, for example numpy.array(it)")
    # The view keeps the capsule: it was not consumed, so it frees its tensor when it dies.
    return aligned(View((given.data or 0) + given.byte_offset, shape, dtype, fixed, (tensor, capsule)), tensor)


def _capsule_of(tensor: Any) -> Any:
    try:
        try:
            return tensor.__dlpack__(max_version=(1, 0))
        except TypeError:  # the older protocol does not have this argument
            return tensor.__dlpack__()
    except Exception as error:
        raise TypeError(f"{kind_of(tensor)} does not give its memory by DLPack ({type(error).__name__}: {error}): give "
                        "a numpy array") from error
