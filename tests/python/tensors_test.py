"""Objects that are accepted as tensors, and objects that are refused, with the reason."""
import array
import sys
import types

import numpy
import pytest
import torch

import anello
from anello import dlpack
from anello._library import C, lib
from anello.tensors import empty_like, view


class Foreign:
    """A tensor of a library that supports only DLPack."""

    def __init__(self, tensor):
        self.tensor = tensor

    def __dlpack__(self, stream=None):
        return torch.utils.dlpack.to_dlpack(self.tensor)


NUMPY = {"f2": C.F16, "f4": C.F32, "f8": C.F64, "i1": C.I8, "u1": C.U8, "i2": C.I16, "u2": C.U16, "i4": C.I32,
         "u4": C.U32, "i8": C.I64, "u8": C.U64, "?": C.BOOL}
TORCH = {torch.float16: C.F16, torch.bfloat16: C.BF16, torch.float32: C.F32, torch.float64: C.F64, torch.int8: C.I8,
         torch.uint8: C.U8, torch.int16: C.I16, torch.int32: C.I32, torch.int64: C.I64, torch.bool: C.BOOL}


@pytest.mark.parametrize("dtype", NUMPY)
def test_arrays(dtype):
    made = numpy.zeros((3, 5), dtype)
    found = view(made)
    assert found[:3] == (made.ctypes.data, (3, 5), NUMPY[dtype]) and found.count == 15


@pytest.mark.parametrize("dtype", TORCH)
def test_tensors(dtype):
    made = torch.zeros(3, 5, dtype=dtype)
    assert view(made)[:3] == (made.data_ptr(), (3, 5), TORCH[dtype])


@pytest.mark.parametrize("dtype", set(TORCH) - {torch.bool})
def test_dlpack(dtype):
    made = torch.zeros(6, 5, dtype=dtype)[2:]
    assert view(Foreign(made))[:3] == (made.data_ptr(), (4, 5), TORCH[dtype])


@pytest.mark.parametrize("code", "bBhHiIlLqQfd")
def test_buffers(code):
    made = array.array(code, [0] * 7)
    found = view(made)
    assert (found.address, found.count) == made.buffer_info() and found.writable


@pytest.mark.parametrize("dtype", TORCH)
def test_memory_of_the_engine_lives_as_long_as_its_views(dtype):
    made = dlpack.zeros(TORCH[dtype], 3000)
    assert made.dtype == dtype and made.shape == (3000,) and made.data_ptr() % 64 == 0 and not made.any()
    made = made.fill_(1)[1000:].view(2, 1000)
    assert made.all()


def mapped():
    return sum("anello" in line for line in open("/proc/self/maps"))


def test_memory_of_the_engine_is_freed():
    before = mapped()
    made = dlpack.zeros(C.F32, 3000)
    assert mapped() == before + 1
    del made
    assert mapped() == before


def test_memory_of_the_engine_that_torch_refuses_is_freed(monkeypatch):
    def refuse(capsule):
        raise RuntimeError("refused")
    monkeypatch.setattr(torch.utils.dlpack, "from_dlpack", refuse)
    before = mapped()
    with pytest.raises(RuntimeError, match="refused"):
        dlpack.zeros(C.F32, 3000)
    assert mapped() == before


def test_memory_that_could_not_be_given_back_is_not_allocated():
    before = mapped()
    with pytest.raises(anello.InvalidArgument, match="out parameter"):
        lib.anello_allocate(10000, None)
    assert mapped() == before


def test_dimensions_without_elements_and_without_dimensions():
    assert view(numpy.zeros((0, 3))).count == 0
    assert view(torch.zeros(())).count == 1
    assert view(bytearray()).count == 0


@pytest.mark.parametrize("wrong, why", [
    ([1, 2], "not a tensor"),
    (numpy.zeros((4, 4))[:, 1], "not contiguous"),
    (numpy.zeros(3, "c8"), "c8 cannot be sent; the types that can.*: f2, f4"),
    (numpy.zeros(3, ">f4"), "cannot be sent"),
    (torch.zeros(4, 4).t(), "contiguous"),
    (torch.zeros(3, dtype=torch.complex64), "complex64 cannot be sent; the types that can: torch.float16,"),
    (Foreign(torch.zeros(4, 4).t()), "not contiguous"),
    (numpy.ndarray, "the class ndarray is not a tensor"),
    (torch.Tensor, "the class Tensor is not a tensor"),
    (types.SimpleNamespace(__array_interface__={"typestr": "<f4", "shape": (4,), "data": 5}), "a number as data"),
])
def test_refused(wrong, why):
    with pytest.raises((TypeError, ValueError), match=why):
        view(wrong)


def test_a_tensor_whose_storage_was_made_smaller_is_refused():
    made = torch.zeros(4096)[96:]
    assert view(made).count == 4000
    made.storage().resize_(4095)
    with pytest.raises(ValueError, match="storage of the tensor was made smaller"):
        view(made)


def test_only_tensors_of_torch_lie_on_a_gpu():
    for each in (numpy.zeros(3), bytearray(3), 1.0):
        with pytest.raises(ValueError, match="does not lie on cuda:0: give a tensor of torch"):
            view(each, 0)


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_another_thread_may_be_importing_a_library(monkeypatch, library):
    monkeypatch.setitem(sys.modules, library, types.ModuleType(library))  # has no attributes yet
    assert view(bytearray(3)).count == 3 and view(2.5).value() == 2.5
    assert list(empty_like(1, (2,))) == [0, 0]
    with pytest.raises(TypeError, match="out="):
        empty_like(bytearray(2), (3,))


def test_read_only_memory_is_no_output():
    fixed = numpy.zeros(3)
    fixed.flags.writeable = False
    assert view(fixed).input().count == 3
    for each in (fixed, b"abc"):
        with pytest.raises(ValueError, match="read-only"):
            view(each).output()


def test_results_are_of_the_library_of_the_input():
    assert empty_like(numpy.zeros(2, "i4"), (3,)).dtype == numpy.int32
    assert empty_like(torch.zeros(2, dtype=torch.int8), (3,)).dtype == torch.int8
    with pytest.raises(TypeError, match="out="):
        empty_like(bytearray(2), (3,))
