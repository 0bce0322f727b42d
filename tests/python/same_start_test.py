"""DistributedOptimizer when ranks begin differently: with other parameters, or with a later first step."""
import warnings

import pytest
import torch

import anello
import anello.torch as hvd


@pytest.fixture(autouse=True)
def initialised(horovod):
    horovod.init()


def odd_rank(differs):
    """The rank that an error must name: the rank that differs, if the other ranks are a majority; with two ranks,
    none."""
    return differs if hvd.size() > 2 else None


def job(seed=0, **options):
    torch.manual_seed(seed)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))
    return model, hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters(),
                                           **options)


def step(model, optimizer):
    optimizer.zero_grad()
    model(torch.full((2, 3), hvd.rank() + 1.0)).pow(2).sum().backward()
    optimizer.step()


def warned(model, optimizer, between=lambda: None):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        step(model, optimizer)
        between()
        for _ in range(3):
            step(model, optimizer)
    assert all(each.filename == __file__ for each in caught), "a line of the script, not of the package"
    return [str(each.message) for each in caught]


def test_a_forgotten_broadcast_is_told_once_by_rank_0():
    model, optimizer = job(seed=hvd.rank())
    with torch.no_grad():
        model[0].weight.fill_(1)
    messages = warned(model, optimizer)
    assert len(messages) == (1 if hvd.rank() == 0 else 0)
    assert all("'0.bias'" in each and "hvd.broadcast_parameters(" in each for each in messages)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_one_bit_is_a_difference(dtype):
    parameters = [torch.nn.Parameter(torch.full(shape, 1.0, dtype=dtype)) for shape in ((2, 3), ())]
    if hvd.rank() == 1:
        with torch.no_grad():
            parameters[1] += torch.finfo(dtype).eps
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(parameters, lr=0.1))
    for each in parameters:
        each.grad = torch.zeros_like(each)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        optimizer.step()
        optimizer.step()
    assert ["'parameter 1 of group 0'" in str(each.message) for each in caught] == [True] * (hvd.rank() == 0)


def test_scripts_that_know_what_they_do_are_not_warned():
    assert not warned(*job())
    assert not warned(*job(seed=hvd.rank(), compare_parameters=False))
    model, optimizer = job(seed=hvd.rank())
    assert not warned(model, optimizer, lambda: hvd.broadcast_parameters(model.state_dict(), root_rank=0))


def test_names_may_have_another_order():
    model, _ = job()
    named = list(model.named_parameters())
    order = named if hvd.rank() == 0 else named[::-1]
    for options in ({}, {"groups": 1}, {"compression": hvd.Compression.fp16}):
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD([each for _, each in order], lr=0.1), order, **options)
        assert not warned(model, optimizer)
        sums = [each.sum().item() for each in model.parameters()]
        assert hvd.allgather_object(sums) == [sums] * hvd.size()


def test_a_shape_that_differs_is_named():
    first, second = (torch.nn.Parameter(torch.ones(count)) for count in (2 + hvd.rank() % 2, 3))
    named = [("first", first), ("second", second)]
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([first, second], lr=0.1), named)
    (first.sum() + second.sum()).backward()
    with pytest.raises(anello.Mismatch, match=r"'first' has the shape \(2,\) on rank 0, \(3,\) on rank 1") as caught:
        optimizer.step()
    assert caught.value.rank == odd_rank(1)


def another_model_on_rank_1():
    """Rank 1 has one layer more, or different names of layers. Returns each case with the text of its error."""
    layers = {name: torch.nn.Linear(2, 2) for name in ("first", "second")}
    more = {**layers, "third": torch.nn.Linear(2, 2)}
    other = {name.upper(): layer for name, layer in layers.items()}
    for odd, has in ((more, r"6 \(18 elements\)"), (other, r"4 \(12 elements\) with other names")):
        model = torch.nn.ModuleDict(odd if hvd.rank() == 1 else layers)
        yield model, r"rank 0 {0} 4 parameters \(12 elements\), rank 1 {0} " + has


def test_different_models_are_refused_before_parameters_are_sent():
    for model, why in another_model_on_rank_1():
        with pytest.raises(anello.Mismatch, match=why.format("has")) as caught:
            hvd.broadcast_parameters(model.state_dict(), root_rank=0)
        assert caught.value.rank == odd_rank(1)


@pytest.mark.parametrize("named", [True, False])
def test_different_models_are_refused_in_the_first_step(named):
    for model, why in another_model_on_rank_1():
        if not named and "other names" in why:
            continue
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1),
                                             model.named_parameters() if named else None)
        sum(layer(torch.ones(1, 2)).sum() for layer in model.values()).backward()
        for call in (optimizer.step, optimizer.step, optimizer.zero_grad, optimizer.synchronize):
            with pytest.raises(anello.Mismatch, match=why.format("trains")):
                call()
    hvd.shutdown()  # gradients that only one rank has are still under way


def test_a_rank_that_trains_nothing_is_a_difference():
    model, _ = job()
    model.requires_grad_(hvd.rank() == 0)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
    with pytest.raises(anello.Mismatch, match=r"rank 0 trains 4 .*\(26 elements\).*; only rank 0 trains '0.bias'") as caught:
        optimizer.step()
    assert caught.value.rank == odd_rank(0)
    hvd.shutdown()


def test_different_models_are_told_also_if_a_rank_has_joined():
    if hvd.size() < 3:
        pytest.skip("needs two ranks that have not joined")
    model = torch.nn.Linear(3, 2, bias=hvd.rank() == 1)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
    if hvd.rank() > 0:
        with pytest.raises(anello.Mismatch, match="the models of the ranks differ; make the same model"):
            optimizer.step()
    hvd.join()
    hvd.shutdown()


@pytest.mark.parametrize("options", [{}, {"groups": 1}], ids=str)
def test_a_rank_may_join_before_its_first_step(options):
    model, optimizer = job(**options)
    for _ in range(3 if hvd.rank() == 0 else 0):
        step(model, optimizer)
    hvd.join()
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    for _ in range(3):
        step(model, optimizer)
    sums = [each.sum().item() for each in model.parameters()]
    assert hvd.allgather_object(sums) == [sums] * hvd.size()
