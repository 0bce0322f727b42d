"""The arguments of torch.distributed's verbs over the backend "anello": lists, types, strides and tags."""
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist

import anello.torch.distributed


pytestmark = pytest.mark.usefixtures("process_group")


def rank():
    return dist.get_rank()


def size():
    return dist.get_world_size()


def test_lists_must_have_a_tensor_for_each_rank():
    ones, ranks = torch.ones(3), size()
    for count in (ranks - 1, ranks + 1):
        parts = [torch.empty(3) for _ in range(count)]
        with pytest.raises(ValueError, match=f"all_gather: there are {count} output tensors, but .* has {ranks}"):
            dist.all_gather(parts, ones)
        if rank() == 1:
            with pytest.raises(ValueError, match=f"gather: there are {count} output tensors"):
                dist.gather(ones, parts, dst=1)
            with pytest.raises(ValueError, match=f"scatter: there are {count} input tensors"):
                dist.scatter(ones, parts, src=1)
    with pytest.raises(ValueError, match="output tensor 0 has 2 elements of torch.float32, but this rank's part 3"):
        dist.all_gather([torch.empty(2) for _ in range(ranks)], ones)


def test_complex_tensors_move_and_are_summed():
    mine = torch.tensor([1 + 2j, 3j]) * (rank() + 1)
    if rank() == 0:
        dist.send(mine, 1)
    elif rank() == 1:
        got = torch.zeros(2, 2, dtype=mine.dtype)[:, 0]
        dist.recv(got, 0)
        assert got.tolist() == [1 + 2j, 3j]
    given = mine.clone().conj()  # read on rank 0 and written elsewhere
    if hasattr(torch, "compiler"):  # newer torch (2.0 or later) refuses the conjugate bit itself
        given = given.resolve_conj()
    dist.broadcast(given, 0)
    assert given.tolist() == [1 - 2j, -3j]
    parts = [torch.zeros_like(mine) for _ in range(size())] if rank() == 0 else None
    dist.gather(mine, parts, dst=0)
    assert rank() > 0 or [each[1].item() for each in parts] == [3j * (r + 1) for r in range(size())]
    total = mine.clone()
    dist.reduce(total, 0)
    assert rank() > 0 or total[1].item() == 3j * sum(range(1, size() + 1))
    part = torch.zeros(1, dtype=mine.dtype)
    dist.reduce_scatter(part, [torch.tensor([1j * r]) for r in range(size())])
    assert part.item() == 1j * rank() * size()
    with pytest.raises(RuntimeError, match="complex tensors can only be summed or averaged; product"):
        dist.reduce(total, 0, dist.ReduceOp.PRODUCT)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32])
def test_sparse_integers_are_summed_exactly(dtype):
    made = torch.sparse_coo_tensor([[0, 2]], torch.tensor([2**24 + 1, 3], dtype=dtype), (4,))
    with pytest.raises(RuntimeError, match="PREMUL_SUM is for floating-point tensors"):
        dist.distributed_c10d._get_default_group()._allreduce_sparse([made], "sum", 0.5)
    dist.all_reduce(made)
    assert made.dtype == dtype and made.to_dense().tolist() == [(2**24 + 1) * size(), 0, 3 * size(), 0]


def test_expanded_tensors_are_sent_and_not_written():
    expanded = torch.full((1,), 7.0).expand(4)
    made = expanded if rank() == 0 else torch.zeros(4)
    dist.broadcast(made, 0)
    assert made.tolist() == [7.0] * 4
    dist.reduce(torch.zeros(4) if rank() == 0 else expanded, 0)
    with pytest.raises(RuntimeError, match="lie in one place"):
        dist.all_reduce(expanded)
    whole = torch.ones(4)
    with pytest.raises(RuntimeError, match="lie in one place"):
        dist.all_reduce_coalesced([whole, expanded])
    with pytest.raises(RuntimeError, match="lie in one place"):
        dist.all_gather([torch.ones(1).expand(4) for _ in range(size())], whole)
    dist.barrier()
    assert whole.tolist() == [1] * 4, "nothing was sent"


def test_negated_views_keep_their_sign():
    parts = [torch.zeros(2) for _ in range(size())]
    dist.all_gather(parts, torch._neg_view(torch.ones(2)))
    negated = torch._neg_view(torch.ones(2))
    dist.all_reduce(negated)
    assert [each.tolist() for each in parts] == [[-1, -1]] * size() and negated.tolist() == [-size()] * 2


def test_lists_of_lists_must_fit():
    for count in (1, 3):
        parts = [[torch.ones(1) for _ in range(count)] for _ in range(size())]
        with pytest.raises(ValueError, match=f"gives 2 tensors, but the outputs of rank 0 are {count}"):
            dist.all_gather_coalesced(parts, [torch.ones(1), torch.ones(1)])


def test_tags_are_those_of_the_sender_in_its_order():
    if rank() == 0:
        for tag in (5, 3, 0):
            dist.isend(torch.full((1,), float(tag)), 1, tag=tag).wait()
    if rank() == 1:
        got = torch.zeros(3)
        for k, tag in enumerate((5, 3, 0)):
            dist.recv(got[k:k + 1], 0 if k > 0 else None, tag=tag)
        assert got.tolist() == [5, 3, 0]
    dist.barrier()


def test_a_rank_listed_twice_is_named():
    store = dist.HashStore()
    store.set_timeout(timedelta(seconds=0.1))
    with pytest.raises(RuntimeError, match="as its rank 1 of 2: a rank may be listed twice"):
        anello.torch.distributed._world_ranks(store, 0, 2, rank())


def verbs():
    """Calls that write a result into a given tensor. Each call returns the elements that the tensor must have
    afterwards."""
    total, others = sum(range(1, size() + 1)), [each for each in range(size()) if each != 0]

    def reduce(made):
        dist.reduce(made, 0)
        return total if rank() == 0 else None

    def scatter(made):
        dist.scatter(made, [torch.full((3, 2), r + 1.0) for r in range(size())] if rank() == 0 else None)
        return rank() + 1

    def reduce_scatter(made):
        dist.reduce_scatter(made, [torch.full((3, 2), r + 1.0) for r in range(size())])
        return size() * (rank() + 1)

    def recv(made):
        if rank() == 0:
            for other in others:
                dist.send(torch.full((3, 2), 7.0), other)
            return rank() + 1
        dist.recv(made, 0)
        return 7

    def all_gather(made):
        dist.all_gather([made if r == 0 else torch.empty(3, 2) for r in range(size())], torch.full((3, 2), rank() + 1.0))
        return 1

    return {"all_reduce": lambda made: (dist.all_reduce(made), total)[1],
            "broadcast": lambda made: (dist.broadcast(made, 1), 2)[1],
            "reduce": reduce, "scatter": scatter, "reduce_scatter": reduce_scatter, "recv": recv,
            "all_gather": all_gather}


@pytest.mark.parametrize("called_in_it", [True, False])
@pytest.mark.parametrize("verb", ["all_reduce", "broadcast", "reduce", "scatter", "reduce_scatter", "recv", "all_gather"])
def test_tensors_of_inference_mode_with_strides_are_written(verb, called_in_it):
    with torch.inference_mode():
        whole = torch.full((2, 3), rank() + 1.0)
    made = whole.T
    with torch.inference_mode(called_in_it):
        expected = verbs()[verb](made)
    assert expected is None or (whole == expected).all()


def test_writing_to_a_tensor_with_strides_is_seen_by_autograd():
    weight = torch.ones(2, 3, requires_grad=True)
    given = torch.ones(3, 2).T
    product = weight * given
    dist.all_reduce(given)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.sum().backward()


def premul_sum(factor):
    from torch._C import _distributed_c10d as c10d
    return c10d._make_nccl_premul_sum(factor)


def test_the_factor_of_premul_sum_is_that_of_each_rank():
    given, op = torch.full((5,), 3.0), premul_sum(rank() + 1.0)
    if torch.__version__ < "2":
        with pytest.raises(RuntimeError, match="PREMUL_SUM needs one .* torch 2 or later: multiply the tensor by the"):
            dist.all_reduce(given, op)
        return
    dist.all_reduce(given, op)
    assert (given == 3 * sum(range(1, size() + 1))).all()
    out = torch.zeros(2)
    dist.reduce_scatter(out, [torch.ones(2)] * size(), premul_sum(0.5))
    assert (out == 0.5 * size()).all()
