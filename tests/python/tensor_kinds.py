"""Kinds of objects that people pass as tensors. CHANGES: a verb changes the object in place. NUMBER: a verb returns a
number. INPUT: a verb accepts the object only with out=. REFUSED: every verb refuses the object.
"""
import array
import ctypes
import decimal
import mmap
import tempfile

import numpy

CHANGED, NUMBER, INPUT, REFUSED = "changed", "number", "input", "refused"
COUNT = 6  # can be divided among 2 and 3 ranks


class Kind:
    def __init__(self, name, outcome, make, dtype="f8", count=COUNT, read=None, why=""):
        self.name, self.outcome, self.make, self.dtype, self.count, self.why = name, outcome, make, dtype, count, why
        self.read = read or (lambda made: numpy.asarray(made).reshape(-1).astype("f8").tolist())

    def empty(self, count):
        return numpy.zeros(count, self.dtype)


def full(value, dtype="f8", shape=COUNT):
    """An array with guard elements before and after it that must not change."""
    count = int(numpy.prod(shape))
    around = numpy.full(count + 16, 77, dtype)
    around[8:8 + count] = value
    fences.append(around)
    return around[8:8 + count].reshape(shape)


fences = []


def require_fences():
    for each in fences:
        assert (each[:8] == 77).all() and (each[-8:] == 77).all()
    fences.clear()


def fixed(made):
    made.flags.writeable = False
    return made


def unaligned(value):
    made = numpy.frombuffer(bytearray(8 * COUNT + 1), "f8", COUNT, 1)
    made[:] = value
    return made


def memory_map(mode):
    def make(value):
        with tempfile.NamedTemporaryFile() as file:
            file.write(numpy.full(COUNT, value, "f8").tobytes())
            file.flush()
            return numpy.memmap(file.name, "f8", mode)
    return make


def mapped(value):
    made = mmap.mmap(-1, COUNT)
    made[:] = bytes([value] * COUNT)
    return made


class Interface:
    """An object with __array_interface__ that owns an array."""

    def __init__(self, value, read_only=False, **changes):
        self.array = full(value)
        self.array.flags.writeable = not read_only
        self.changes = changes

    @property
    def __array_interface__(self):
        return {**self.array.__array_interface__, **self.changes}


class Stored:
    """An object like torch's buckets: it stores its interface, and only this interface describes its memory."""

    def __init__(self, value):
        self.array = full(value)
        self.held = (self.array,)
        self.__array_interface__ = self.array.__array_interface__


class Exporting(ctypes.c_double * COUNT):
    """A buffer that also has an __array_interface__."""

    @property
    def __array_interface__(self):
        return {"version": 3, "shape": (COUNT,), "typestr": "<f8", "data": (ctypes.addressof(self), False)}


class Anew:
    """An object whose __array_interface__ describes newly made memory, which either has no owner, or belongs to the
    object until the next access."""

    def __init__(self, value, make, count=COUNT):
        self.value, self.make, self.count = value, make, count

    @property
    def __array_interface__(self):
        return self.make(self, self.count)


def temporary(owner, count):
    return numpy.full(count, owner.value, "f8").__array_interface__


def aligned_slice(owner, count):
    made = numpy.full(count + 8, owner.value, "f8")
    first = -made.ctypes.data % 64 // 8
    return made[first:first + count].__array_interface__


def closed_map(owner, count):
    made = mmap.mmap(-1, 8 * count)
    address = ctypes.addressof(ctypes.c_char.from_buffer(made))
    made.close()
    return {"version": 3, "shape": (count,), "typestr": "<f8", "data": (address, False)}


def last(owner, count):
    owner.made = numpy.full(count, owner.value, "f8")
    return owner.made.__array_interface__


class Bytes:
    """An object like an image of PIL: its interface contains bytes, which it makes anew at each access."""

    def __init__(self, value, kind=bytes, shape=(COUNT,), **more):
        self.data, self.kind, self.shape, self.more = [value] * COUNT, kind, shape, more

    @property
    def __array_interface__(self):
        return {"version": 3, "data": self.kind(self.data), "shape": self.shape, "typestr": "|u1", **self.more}


class _Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device", ctypes.c_int32), ("id", ctypes.c_int32), ("ndim", ctypes.c_int32),
                ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("offset", ctypes.c_uint64)]


class _Old(ctypes.Structure):
    _fields_ = [("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class _New(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p),
                ("deleter", ctypes.c_void_p), ("flags", ctypes.c_uint64), ("tensor", _Tensor)]


_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype, _new_capsule.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


class DLPack:
    """A tensor of a library with DLPack: without a version, like TensorFlow's and JAX's, or 1.0 with flags."""

    def __init__(self, value, flags=None, device=1, bits=64, major=1):
        self.array = full(value)
        self.flags, self.device, self.bits, self.major = flags, device, bits, major

    def _fill(self, tensor):
        self.shape = (ctypes.c_int64 * 1)(COUNT)
        tensor.data, tensor.device, tensor.ndim = self.array.ctypes.data, self.device, 1
        tensor.code, tensor.bits, tensor.lanes, tensor.shape = 2, self.bits, 1, self.shape

    def _old(self):
        self.held = _Old()
        self._fill(self.held.tensor)
        return _new_capsule(ctypes.addressof(self.held), b"dltensor", None)

    def __dlpack__(self, stream=None, **options):
        if self.flags is None:
            if options:
                raise TypeError("__dlpack__() got an unexpected keyword argument")
            return self._old()
        if options.get("max_version", (0, 0)) < (1, 0):
            raise BufferError("this tensor needs DLPack 1.0")
        self.held = _New(major=self.major, flags=self.flags)
        self._fill(self.held.tensor)
        return _new_capsule(ctypes.addressof(self.held), b"dltensor_versioned", None)


class Text:
    """A tensor of strings, whose __dlpack__() ends the process in TensorFlow."""

    class dtype:
        name = "string"

    def __init__(self, value):
        pass

    def __dlpack__(self, **options):
        raise AssertionError("__dlpack__() was called")


class Series:
    """An object of a library that can only copy its elements, like pandas."""

    def __init__(self, value):
        self.value = value

    def __array__(self, dtype=None, copy=None):
        return full(self.value)


def of_array(made):
    return made.array.tolist()


def kinds():
    """Kinds of numpy, Python, and the protocols."""
    made = [
        Kind("array", CHANGED, full),
        Kind("array without dimensions", CHANGED, lambda v: full(v, shape=()), count=1),
        Kind("array of two dimensions", CHANGED, lambda v: full(v, shape=(3, 2))),
        Kind("array without elements", CHANGED, lambda v: full(v, shape=(0, 3)), count=0),
        Kind("matrix", CHANGED, lambda v: full(v, shape=(3, 2)).view(numpy.matrix)),
        Kind("memory map r+", CHANGED, memory_map("r+")),
        Kind("memory map r", INPUT, memory_map("r"), why="memmap is read-only.*out="),
        Kind("read-only array", INPUT, lambda v: fixed(full(v)), why="numpy.ndarray is read-only.*out="),
        Kind("unaligned array", INPUT, unaligned, why="numpy.ndarray do not lie at a multiple.*copy"),
        Kind("column", REFUSED, lambda v: full(v, shape=(6, 2))[:, 0], why="numpy.ascontiguousarray"),
        Kind("Fortran order", REFUSED, lambda v: numpy.asfortranarray(full(v, shape=(3, 2))), why="ascontiguousarray"),
        Kind("reversed", REFUSED, lambda v: full(v)[::-1], why="ascontiguousarray"),
        Kind("broadcast", REFUSED, lambda v: numpy.broadcast_to(numpy.array(float(v)), COUNT), why="ascontiguousarray"),
        Kind("other byte order", REFUSED, lambda v: full(v, ">f8"), why=">f8 cannot be sent"),
        Kind("complex", REFUSED, lambda v: full(v, "c16"), why="c16 cannot be sent.*real and .imag"),
        Kind("structured", REFUSED, lambda v: numpy.zeros(COUNT, [("a", "f4"), ("b", "i4")]), why="cannot be sent"),
        Kind("dates", REFUSED, lambda v: numpy.zeros(COUNT, "M8[ns]"), why=r"M8\[ns\] cannot be sent"),
        Kind("objects", REFUSED, lambda v: numpy.full(COUNT, v, object), why="cannot be sent"),
        Kind("texts", REFUSED, lambda v: numpy.full(COUNT, "a"), why="cannot be sent"),
        Kind("long double", REFUSED, lambda v: full(v, "g"), why="cannot be sent"),
        Kind("masked array", REFUSED, lambda v: numpy.ma.array(full(v), mask=[1] + 5 * [0]), why="MaskedArray.*filled"),
        Kind("array.array", CHANGED, lambda v: array.array("d", [v] * COUNT)),
        Kind("bytearray", CHANGED, lambda v: bytearray([v] * COUNT), "u1", read=list),
        Kind("memoryview", CHANGED, lambda v: memoryview(full(v))),
        Kind("ctypes array", CHANGED, lambda v: (ctypes.c_double * COUNT)(*[v] * COUNT)),
        Kind("mmap", CHANGED, mapped, "u1", read=lambda made: list(made[:])),
        Kind("bytes", INPUT, lambda v: bytes([v] * COUNT), "u1", read=list, why="bytes is read-only"),
        Kind("read-only memoryview", INPUT, lambda v: memoryview(full(v)).toreadonly(), why="read-only"),
        Kind("memoryview with gaps", REFUSED, lambda v: memoryview(full(v, shape=12))[::2], why="not contiguous"),
        Kind("interface", CHANGED, Interface, read=of_array),
        Kind("interface to bytes", INPUT, Bytes, "u1", read=lambda made: made.data, why="Bytes is read-only"),
        Kind("interface that is read-only", INPUT, lambda v: Interface(v, read_only=True), read=of_array,
             why="Interface is read-only"),
        Kind("interface that is stored", CHANGED, Stored, read=of_array),
        Kind("interface of a buffer", CHANGED, lambda v: Exporting(*[v] * COUNT), read=list),
        Kind("interface with a mask", REFUSED, lambda v: Interface(v, mask=full(1)), why="mask of .*Interface"),
        *[Kind(f"interface to {count} elements of {make.__name__}", REFUSED, lambda v, make=make, count=count:
               Anew(v, make, count), why="Anew does not hold the memory.*asarray")
          for make in (temporary, aligned_slice, closed_map, last) for count in (COUNT, 100000)],
        Kind("interface to too few bytes", REFUSED, lambda v: Bytes(v, shape=(99,)), why="Bytes describes more memory"),
        Kind("interface to bytes before them", REFUSED, lambda v: Bytes(v, offset=-1), why="describes more memory"),
        Kind("DLPack without a version", INPUT, DLPack, read=of_array, why="DLPack does not state.*out="),
        Kind("DLPack 1.0", CHANGED, lambda v: DLPack(v, 0), read=of_array),
        Kind("DLPack 1.0 read-only", INPUT, lambda v: DLPack(v, 1), read=of_array, why="DLPack does not state.*out="),
        Kind("DLPack 1.0 copy", INPUT, lambda v: DLPack(v, 2), read=of_array, why="DLPack does not state.*out="),
        Kind("DLPack 2.0", REFUSED, lambda v: DLPack(v, 0, major=2), why="2.0"),
        Kind("DLPack of a GPU", REFUSED, lambda v: DLPack(v, 0, device=2), why="host memory"),
        Kind("DLPack of 8 bits", REFUSED, lambda v: DLPack(v, 0, bits=8), why="8 bits.* cannot be sent"),
        Kind("DLPack of texts", REFUSED, Text, why="Text of string cannot be sent"),
        Kind("only __array__", REFUSED, Series, why=r"Series is not a tensor: give numpy.array\(it\)"),
        Kind("float", NUMBER, float, count=1),
        Kind("int", NUMBER, int, "i8", count=1),
        Kind("bool", NUMBER, bool, "?", count=1),
    ]
    for dtype in "e f d b B h H i I l L q Q ?".split():
        made.append(Kind(f"scalar {dtype}", NUMBER, numpy.dtype(dtype).type, dtype, count=1))
        made.append(Kind(f"array {dtype}", CHANGED, lambda v, dtype=dtype: full(v, dtype), dtype)
                    if dtype != "?" else Kind("array ?", CHANGED, lambda v: numpy.full(COUNT, v, "?"), "?"))
    for name, value in [("complex number", 1j), ("numpy.complex64", numpy.complex64(1)), ("text", "1"),
                        ("numpy.datetime64", numpy.datetime64(1, "s")), ("numpy.str_", numpy.str_("a")),
                        ("numpy.longdouble", numpy.longdouble(1)), ("Decimal", decimal.Decimal(1)), ("dict", {}),
                        ("set", {1.0}), ("range", range(3)), ("generator", (each for each in [1.0]))]:
        made.append(Kind(name, REFUSED, lambda v, value=value: value))
    return made


def torch_kinds():
    """Kinds of torch."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode

    class Subclass(torch.Tensor):
        pass

    def tensor(value, *shape):
        return torch.from_numpy(full(float(value), shape=shape or COUNT))

    def inference(value):
        with torch.inference_mode():
            return torch.full((COUNT,), float(value), dtype=torch.float64)

    def fake(value):
        with FakeTensorMode():
            return torch.ones(COUNT)

    def read(made):
        return made.detach().reshape(-1).tolist()

    def negated(value):
        return torch._neg_view(tensor(-value))

    def kind(name, outcome, make, why="", count=COUNT, dtype="f8"):
        return Kind(name, outcome, make, dtype, count, read, why)

    return [
        kind("tensor", CHANGED, tensor),
        kind("tensor without dimensions", CHANGED, lambda v: torch.tensor(float(v), dtype=torch.float64), count=1),
        kind("tensor without elements", CHANGED, lambda v: torch.zeros(0, 3, dtype=torch.float64), count=0),
        kind("parameter", CHANGED, lambda v: torch.nn.Parameter(tensor(v))),
        kind("subclass", CHANGED, lambda v: tensor(v).as_subclass(Subclass)),
        kind("tensor of inference", CHANGED, inference),
        kind("shared tensor", CHANGED, lambda v: tensor(v).clone().share_memory_()),
        kind("negative bit", INPUT, negated, why="resolve_neg.*out="),
        kind("imaginary part of a conjugate", INPUT, lambda v: torch.tensor(complex(1, -v), dtype=torch.complex128)
             .conj().imag, why="resolve_neg.*out=", count=1),
        kind("expanded", REFUSED, lambda v: torch.full((1,), float(v)).expand(COUNT), why="contiguous()"),
        kind("transposed", REFUSED, lambda v: tensor(v, 3, 2).t(), why="contiguous()"),
        kind("sparse COO", REFUSED, lambda v: tensor(v).to_sparse(), why="sparse_coo.*to_dense"),
        kind("sparse CSR", REFUSED, lambda v: tensor(v, 3, 2).to_sparse_csr(), why="sparse_csr.*to_dense"),
        kind("mkldnn", REFUSED, lambda v: tensor(v).float().to_mkldnn(), why="mkldnn.*to_dense"),
        kind("nested", REFUSED, lambda v: torch.nested.nested_tensor([tensor(v), tensor(v)]), why="nested.*unbind"),
        kind("quantized", REFUSED, lambda v: torch.quantize_per_tensor(torch.ones(COUNT), 1, 0, torch.quint8),
             why="quint8.*dequantize"),
        kind("complex tensor", REFUSED, lambda v: tensor(v).to(torch.complex64), why="complex64 cannot.*view_as_real"),
        kind("meta", REFUSED, lambda v: torch.ones(COUNT, device="meta"), why="meta"),
        kind("fake", REFUSED, fake, why="FakeTensor has no memory"),
        kind("zero tensor", REFUSED, lambda v: torch._efficientzerotensor(COUNT), why="no memory of its own.*clone"),
    ]
