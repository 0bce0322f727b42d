"""Calls that anello.torch refuses on one rank only: the others get the reason at once, and the ranks stay in step."""
import concurrent.futures

import pytest
import torch

import anello.torch as hvd


@pytest.fixture(autouse=True)
def initialised(horovod):
    horovod.init()


def is_odd():
    return hvd.rank() == 1


def only_on_odd(call, reason):
    """Makes a call that rank 1 refuses."""
    if is_odd():
        with pytest.raises(Exception, match=reason) as raised:
            call()
        assert "cannot take part" not in str(raised.value)
    else:
        with pytest.raises(hvd.HorovodInternalError, match=f"rank 1 cannot take part: [A-Za-z]+: .*{reason}"):
            call()


def tensors(value):
    return {name: torch.full((3,), float(value)) for name in "abcd"}


def broken_pairs():
    yield "a", torch.ones(3)
    raise OSError("the loader broke")


@pytest.mark.parametrize("wrong, reason", [
    (lambda: torch.nn.Linear(1, 1), "not the model itself"), (broken_pairs, "the loader broke"),
    (lambda: {**tensors(1), "a": torch.ones(1).expand(3)}, "elements of the tensor lie in one place"),
    (lambda: {**tensors(1), "c": torch.ones(3).to_sparse()}, "the tensor is sparse")])
def test_parameters(wrong, reason):
    only_on_odd(lambda: hvd.broadcast_parameters(wrong() if is_odd() else tensors(1), 0), reason)
    mine = tensors(hvd.rank() + 1)
    hvd.broadcast_parameters(mine, 0)  # names are free again
    assert all(each.tolist() == [1, 1, 1] for each in mine.values())


class Unreadable(torch.optim.SGD):
    def state_dict(self):
        raise OSError("the state is lost")


class Sparse(torch.optim.SGD):
    def state_dict(self):
        return {**super().state_dict(), "state": {0: {"momentum_buffer": torch.ones(3).to_sparse()}}}


@pytest.mark.parametrize("wrong, root, reason", [
    (lambda weights: {}, 0, "must be a torch optimizer, not dict"),
    (lambda weights: torch.optim.SGD(weights, lr=0.5), 99, "rank 99 is not one of the ranks"),
    (lambda weights: Unreadable(weights, lr=0.5), 1, "the state is lost"),
    (lambda weights: torch.optim.SGD([{"params": weights}, {"params": [torch.ones(1)]}], lr=0.5), 0,
     "different number of parameter groups"),
    (lambda weights: Sparse(weights, lr=0.5), 1, "the tensor is sparse")])
def test_the_state_of_an_optimizer(wrong, root, reason):
    weights = [torch.ones(3, requires_grad=True)]
    right = torch.optim.SGD(weights, lr=hvd.rank() + 1)
    given = wrong(weights) if is_odd() else right
    only_on_odd(lambda: hvd.broadcast_optimizer_state(given, root if is_odd() or root < hvd.size() else 0), reason)
    hvd.broadcast_optimizer_state(right, 1)
    assert right.param_groups[0]["lr"] == 2


@pytest.mark.parametrize("given, reason", [(torch.ones(2), "at least 2 are needed"),
                                           (torch.ones(2, 4), "the input has 4 features, but the layer has 3")])
def test_batch_normalisation(given, reason):
    layer = hvd.SyncBatchNorm(3)
    only_on_odd(lambda: layer(given if is_odd() else torch.rand(2, 3)), reason)
    assert layer(torch.full((2, 3), float(hvd.rank()))).sign().tolist() == [
        [(2 * hvd.rank() > hvd.size() - 1) - (2 * hvd.rank() < hvd.size() - 1)] * 3] * 2


def unpack(where):
    if where == "odd" and is_odd():
        raise ImportError("no such class here")
    return where


class Packed:
    """An object whose pickle cannot be loaded on rank 1."""

    def __reduce__(self):
        return unpack, ("odd",)


@pytest.mark.parametrize("name", [None, "packed"])
@pytest.mark.parametrize("call", [lambda made, name: hvd.broadcast_object(made, 0, name=name),
                                  lambda made, name: hvd.allgather_object(made, name=name)])
def test_objects_that_one_rank_cannot_load(call, name):
    only_on_odd(lambda: call(Packed(), name), "no such class here")
    for _ in range(2):
        assert call("even", name) in ("even", ["even"] * hvd.size())


def test_objects_by_two_threads_with_names():
    with concurrent.futures.ThreadPoolExecutor(2) as threads:
        names = ["one", "other"] if is_odd() else ["other", "one"]
        calls = {name: threads.submit(lambda name=name: [hvd.broadcast_object(name, 0, name=name) for _ in range(20)])
                 for name in names}
        assert {name: each.result() for name, each in calls.items()} == {name: [name] * 20 for name in names}


class Odd:
    """A compressor that fails on rank 1 while `fails` is set."""

    fails = False

    @classmethod
    def compress(cls, tensor):
        if cls.fails and is_odd():
            raise ArithmeticError("nothing to compress")
        return tensor.clone(), None

    @staticmethod
    def decompress(tensor, ctx):
        return tensor


@pytest.mark.parametrize("passes_before", [0, 1, 2])
def test_a_compressor_that_fails(passes_before):
    """The compressor fails in the first step, where step() sends gradients, or in a later step, where hooks send
    them."""
    weights = [("first", torch.nn.Parameter(torch.ones(2))), ("second", torch.nn.Parameter(torch.ones(3)))]
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([each for _, each in weights], lr=1.0), weights,
                                         compression=Odd)

    def step():
        optimizer.zero_grad()
        sum(each.sum() for _, each in weights).mul(hvd.rank()).backward()
        optimizer.step()

    for _ in range(passes_before):
        step()
    Odd.fails = True
    try:
        only_on_odd(step, "nothing to compress")
    finally:
        Odd.fails = False
    step()
    taken = (passes_before + 1) * (hvd.size() - 1) / 2
    assert all(each.tolist() == [1 - taken] * len(each) for _, each in weights)


def test_an_embedding_whose_gradient_becomes_dense():
    weight = torch.nn.Parameter(torch.ones(4, 2))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([weight], lr=1.0), [("rows", weight)])

    def step(sparse):
        optimizer.zero_grad(set_to_none=True)
        torch.nn.functional.embedding(torch.tensor([1]), weight, sparse=sparse).sum().backward()
        optimizer.step()

    step(sparse=True)
    only_on_odd(lambda: step(sparse=not is_odd()), "the tensor is not sparse")
    step(sparse=True)
    assert weight.sum(1).tolist() == pytest.approx([2, -2, 2, 2])
