"""Tensors of torch that are not plain arrays, in Horovod's interface."""
import numpy
import pytest
import torch

import anello.torch as hvd

pytestmark = pytest.mark.usefixtures("horovod")


@pytest.fixture(scope="module", autouse=True)
def started(horovod):
    horovod.init()


def negated():
    """-2, with the sign outside its memory."""
    return torch.tensor(1 + 2j).conj().imag


def all_negated(values):
    return torch._neg_view(-torch.as_tensor(values))


def test_the_sign_of_a_negated_tensor_is_sent():
    n, rank = hvd.size(), hvd.rank()
    assert negated().is_neg() and negated().is_contiguous()
    assert hvd.allreduce(negated(), op=hvd.Sum) == -2 * n
    assert hvd.allreduce(negated() if rank == 0 else torch.tensor(-2.0), op=hvd.Sum) == -2 * n
    assert hvd.grouped_allreduce([negated()], op=hvd.Sum)[0] == -2 * n
    assert hvd.allreduce(negated(), op=hvd.Max) == -2
    assert hvd.synchronize(hvd.allreduce_async(negated(), op=hvd.Sum)) == -2 * n
    made = all_negated([1.0, 2.0])
    assert hvd.allreduce_(made, op=hvd.Sum) is made and made.tolist() == [1.0 * n, 2.0 * n]
    made = all_negated([1.0 + rank])
    assert hvd.broadcast_(made, 1) is made and made.tolist() == [2.0]
    assert hvd.broadcast(all_negated([1.0 + rank]), 1).tolist() == [2.0]
    assert hvd.allgather(all_negated([1.0])).tolist() == [1.0] * n
    assert hvd.alltoall(all_negated([1.0] * n)).tolist() == [1.0] * n
    assert hvd.reducescatter(all_negated([1.0] * n), op=hvd.Sum).tolist() == [n]


@pytest.mark.parametrize("make, why", [
    (lambda: torch.eye(2).to_sparse(), "to_dense"), (lambda: torch.eye(2).to_sparse_csr(), "to_dense"),
    (lambda: torch.eye(2).to_mkldnn(), "mkldnn.*to_dense"),
    (lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]), "nested.*unbind"),
    (lambda: torch.quantize_per_tensor(torch.ones(2), 1, 0, torch.quint8), "quint8.*dequantize"),
    (lambda: torch.ones(6, dtype=torch.complex64), "complex64 cannot be sent"),
    (lambda: torch.ones(6, device="meta"), "meta, and has no data"),
    (lambda: numpy.ones(6), "torch tensor is needed, not numpy.ndarray"),
    (lambda: None, "torch tensor is needed, not NoneType"),
])
@pytest.mark.parametrize("verb", [
    hvd.allreduce, hvd.allreduce_, lambda x: hvd.grouped_allreduce([x]), hvd.allgather, lambda x: hvd.broadcast(x, 0),
    lambda x: hvd.broadcast_(x, 0), hvd.alltoall, hvd.reducescatter, hvd.allreduce_async,
    lambda x: hvd.broadcast_async(x, 0)])
def test_other_layouts_are_refused_by_name(verb, make, why):
    with pytest.raises((TypeError, ValueError), match=why):
        verb(make())


@pytest.mark.parametrize("wrong, why", [(lambda: torch.ones(2), "not sparse: use allreduce_async"),
                                        (lambda: torch.eye(2).to_sparse_csr(), "sparse_csr.*to_dense"),
                                        (lambda: torch.ones(2, device="meta"), "meta"), (lambda: [1.0], "not list")])
def test_only_tensors_of_coordinates_are_reduced_as_sparse_ones(wrong, why):
    with pytest.raises((TypeError, ValueError), match=why):
        hvd.sparse_allreduce_async(wrong())


@pytest.mark.parametrize("verb", [hvd.allreduce_, lambda x: hvd.broadcast_(x, 0), hvd.allreduce_async_,
                                  lambda x: hvd.grouped_allreduce_([torch.ones(2), x])])
def test_elements_that_share_their_place_take_no_result(verb):
    before = hvd.world().counters()["operations"]
    with pytest.raises(ValueError, match="lie in one place, as after expand.*clone"):
        verb(torch.ones(1, 3).expand(2, 3))
    assert hvd.world().counters()["operations"] == before
    assert hvd.allreduce(torch.ones(1).expand(3), op=hvd.Sum).tolist() == [hvd.size()] * 3


def test_a_tensor_that_gets_other_memory_meanwhile_gets_the_result():
    tensor = torch.ones(3)
    handle = hvd.allreduce_async_(tensor, op=hvd.Sum)
    tensor.data = torch.zeros(3)
    assert hvd.synchronize(handle) is tensor
    assert tensor.tolist() == 3 * [float(hvd.size())]


def test_a_handle_is_what_an_async_call_has_returned():
    sparse = hvd.sparse_allreduce_async(torch.eye(2).to_sparse())
    for call in (hvd.poll, hvd.synchronize):
        with pytest.raises(TypeError, match="takes what a call that ends in _async has returned, not 3"):
            call(3)
        with pytest.raises(TypeError, match="call the function that sparse_allreduce_async.. returned"):
            call(sparse)
    assert torch.equal(sparse().to_dense(), torch.eye(2))


def test_numbers():
    n, rank = hvd.size(), hvd.rank()
    assert hvd.allreduce(float(rank)) == (n - 1) / 2 and hvd.allreduce(2.0, op=hvd.Sum) == 2.0 * n
    assert type(hvd.allreduce(2, op=hvd.Sum)) is int and hvd.allreduce(rank) == (n - 1) / 2
    made = hvd.allreduce(numpy.float32(rank), name="a metric", op=hvd.Max)
    assert type(made) is numpy.float32 and made == n - 1
    assert hvd.synchronize(hvd.allreduce_async(1.0, average=False)) == n
    assert hvd.broadcast(rank + 0.5, 1) == 1.5 and hvd.broadcast(numpy.int64(rank), 1) == 1
    assert hvd.allgather(rank) == list(range(n)) and hvd.allgather(numpy.float64(rank)).tolist() == list(range(n))
    with pytest.raises(OverflowError):
        hvd.allreduce(2**62, op=hvd.Sum)
    with pytest.raises(ValueError, match="a torch tensor is needed, not float"):
        hvd.allreduce_(2.0)
