"""DistributedOptimizer when the program changes the trained parameters, or has several optimizers."""
import copy
import gc
import warnings

import pytest
import torch

import anello
import anello.torch as hvd

STEPS = 50


@pytest.fixture(autouse=True)
def initialised(horovod):
    horovod.init()
    torch.manual_seed(0)


def network(layers=3):
    return torch.nn.Sequential(*[torch.nn.Linear(4, 4) for _ in range(layers)])


def wrapped(model, named=True, lr=0.01, momentum=0.9, **options):
    return hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=lr, momentum=momentum),
                                    model.named_parameters() if named else None, **options)


def backward(model):
    """Each rank has different samples."""
    generator = torch.Generator().manual_seed(hvd.rank())
    model(torch.randn(5, 4, generator=generator)).tanh().pow(2).sum().backward()


def step(model, optimizer):
    optimizer.zero_grad()
    backward(model)
    optimizer.step()


def assert_equal_bits(*models):
    for model in models:
        values = [each.detach().double().tolist() for each in model.parameters()]
        assert hvd.allgather_object(values) == [values] * hvd.size()


def unfreeze(model, optimizer):
    model[0].requires_grad_(True)


def add_group(model, optimizer):
    model[0].requires_grad_(True)
    optimizer.add_param_group({"params": list(model[0].parameters()), "lr": 0.1})


def replace(model, optimizer):
    """Replaces a layer by a smaller layer, as pruning does. A merge of adapters also changes the parameters like
    this."""
    made = torch.nn.Sequential(torch.nn.Linear(4, 2, bias=False), torch.nn.Linear(2, 4, bias=False))
    old = list(model[1].parameters())
    model[1] = made
    places = {old[0]: made[0].weight, old[1]: made[1].weight}
    for group in optimizer.param_groups:
        group["params"] = [next((new for each, new in places.items() if each is parameter), parameter)
                           for parameter in group["params"]]


def remove(model, optimizer):
    model[2].requires_grad_(False)
    gone = list(model[2].parameters())
    for group in optimizer.param_groups:
        group["params"] = [each for each in group["params"] if not any(each is one for one in gone)]


@pytest.mark.parametrize("options", [{}, {"named": False}, {"groups": 2}, {"compression": hvd.Compression.fp16},
                                     {"compression": hvd.Compression.fp16, "error_feedback": True},
                                     {"backward_passes_per_step": 2}], ids=str)
@pytest.mark.parametrize("change", [unfreeze, add_group, replace, remove])
def test_parameters_that_change_are_averaged_from_then_on(change, options):
    model = network()
    if change in (unfreeze, add_group):
        model[0].requires_grad_(False)
    if change is add_group:
        parameters = [each for each in model.parameters() if each.requires_grad]
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD(parameters, lr=0.01), **{
            **{key: value for key, value in options.items() if key != "named"},
            "named_parameters": model.named_parameters() if options.get("named", True) else None})
    else:
        optimizer = wrapped(model, **options)
    before = copy.deepcopy(model)
    for k in range(STEPS):
        if k == 10:
            change(model, optimizer)
        optimizer.zero_grad()
        for _ in range(options.get("backward_passes_per_step", 1)):
            backward(model)
        optimizer.step()
    assert_equal_bits(model)
    if change in (unfreeze, add_group):
        assert not torch.equal(model[0].weight, before[0].weight), "it is trained"


def test_they_travel_in_buckets_again_after_one_step():
    model = network()
    model[0].requires_grad_(False)
    optimizer = wrapped(model)
    step(model, optimizer)
    unfreeze(model, optimizer)
    for _ in range(2):
        step(model, optimizer)
    assert len({each.grad._base.data_ptr() for each in model.parameters()}) == 1


def test_layers_may_be_frozen_and_unfrozen_in_turn():
    """The layers are used like a generator and a discriminator, in one backward pass through both."""
    models = [network(1), network(2)]
    optimizers = [wrapped(model) for model in models]
    for k in range(STEPS):
        for number, model in enumerate(models):
            model.requires_grad_(number == k % 2)
        for optimizer in optimizers:
            optimizer.zero_grad()
        backward(torch.nn.Sequential(*models))
        optimizers[k % 2].step()
    assert_equal_bits(*models)


def odd_rank():
    """The rank that an error must name: the last one, if the other ranks are a majority; with two ranks, none."""
    return hvd.size() - 1 if hvd.size() > 2 else None


def alone(model, optimizer, change):
    if hvd.rank() == hvd.size() - 1:
        change(model, optimizer)


@pytest.mark.parametrize("change, why", [
    (unfreeze, r"only rank {0} trains '0.bias', '0.weight'"), (remove, r"trains '2.bias', '2.weight'"),
    (lambda model, optimizer: optimizer.add_param_group({"params": [torch.nn.Parameter(torch.ones(7))]}),
     r"only rank {0} trains 'parameter 0 of group 1'")])
@pytest.mark.parametrize("after", [0, 1, 5])
def test_a_rank_that_changes_them_alone_is_an_error_on_all(change, why, after):
    model = network()
    model[0].requires_grad_(change is not unfreeze)
    optimizer = wrapped(model, momentum=0)
    for _ in range(after):
        step(model, optimizer)
    alone(model, optimizer, change)
    with pytest.raises(anello.Mismatch, match=why.format(hvd.size() - 1) + ".*unfreeze, add and replace the same") as one:
        for _ in range(2):
            step(model, optimizer)
    assert one.value.rank == odd_rank()
    with pytest.raises(anello.Mismatch, match="the models of the ranks differ"):
        optimizer.zero_grad()
    hvd.shutdown()  # gradients that only some ranks have are still under way


def test_a_rank_that_replaces_a_parameter_alone_is_named():
    model = network()
    optimizer = wrapped(model, named=False)
    for _ in range(3):
        step(model, optimizer)
    if hvd.rank() == hvd.size() - 1:
        model[1].weight = torch.nn.Parameter(model[1].weight.detach().clone())
        optimizer.param_groups[0]["params"] = list(model.parameters())
    with pytest.raises(anello.Mismatch, match=f"rank {hvd.size() - 1} has other ones than in the step before, rank 0 "
                                              "has not; make the same model") as caught:
        step(model, optimizer)
    assert caught.value.rank == odd_rank()
    hvd.shutdown()


def test_a_rank_that_unfreezes_alone_when_nothing_was_trained():
    model = network().requires_grad_(False)
    optimizer = wrapped(model)
    for _ in range(3):
        optimizer.step()
    alone(model, optimizer, unfreeze)
    with pytest.raises(anello.Mismatch, match=f"only rank {hvd.size() - 1} trains '0.bias', '0.weight'"):
        optimizer.step()
    hvd.shutdown()


def test_new_layers_of_other_values_are_told():
    model = network()
    optimizer = wrapped(model)
    step(model, optimizer)
    torch.manual_seed(hvd.rank())
    model.append(torch.nn.Linear(4, 4))
    optimizer.add_param_group({"params": list(model[3].parameters())})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(3):
            step(model, optimizer)
    assert ["first that differs is 'parameter 0 of group 1'" in str(each.message) for each in caught] \
        == [True] * (hvd.rank() == 0)


def test_a_parameter_that_comes_too_late_is_an_error():
    model = network()
    model[0].requires_grad_(False)
    optimizer = wrapped(model)
    for _ in range(2):
        step(model, optimizer)
    optimizer.zero_grad()
    backward(model)
    unfreeze(model, optimizer)
    backward(model[:1])
    with pytest.raises(RuntimeError, match="the gradient of '0.weight' is only this rank's, because .*: change "
                                           "parameters before loss.backward"):
        optimizer.step()
    for _ in range(2):
        step(model, optimizer)
    assert_equal_bits(model)


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("when", ["before", "after", "later"])
def test_a_spare_optimizer_of_one_rank_stops_nobody(named, when):
    model, spare = network(), None

    def make_spare():
        if hvd.rank() != 0:
            return None
        others = [wrapped(model, named), wrapped(copy.deepcopy(model), named), wrapped(network(2), named)]
        for each in others:
            each.zero_grad()
        return others

    spare = make_spare() if when == "before" else None
    optimizer = wrapped(model, named)
    spare = make_spare() if when == "after" else spare
    for k in range(STEPS):
        if when == "later" and k == 10:
            spare = make_spare()
        for each in spare or []:
            each.zero_grad()
        step(model, optimizer)
    assert_equal_bits(model)
    torch.manual_seed(1)  # the spare networks have used the generator
    second = network()
    another = wrapped(second, named)
    for _ in range(3):
        step(second, another)
    assert_equal_bits(second)


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("twins", [True, False])
def test_two_optimizers_over_two_models(named, twins):
    models = [network(2), network(2 if twins else 3)]
    optimizers = [wrapped(model, named) for model in models]
    for _ in range(STEPS):
        for optimizer in optimizers:
            optimizer.zero_grad()
        backward(torch.nn.Sequential(*models))
        for optimizer in optimizers:
            optimizer.step()
    assert_equal_bits(*models)


def test_two_optimizers_over_one_model_are_an_error_that_names_a_parameter():
    model = network()
    first, second = wrapped(model), wrapped(model)
    first.zero_grad()
    backward(model)
    first.step()
    with pytest.raises(RuntimeError, match="two DistributedOptimizers have the parameter '0.weight', and the other one "
                                           "has sent its gradient already: give each parameter to one optimizer"):
        second.step()
    for _ in range(2):
        step(model, second)
    backward(model)  # the second optimizer sends gradients meanwhile
    with pytest.raises(RuntimeError, match="has sent its gradient already: .* or call zero_grad.. of the one that takes"):
        first.step()
    second.step()
    assert_equal_bits(model)


def test_two_optimizers_that_share_a_layer_are_an_error():
    shared, heads = network(1), [network(1), network(1)]
    optimizers = [wrapped(torch.nn.Sequential(head, shared)) for head in heads]
    backward(torch.nn.Sequential(*heads, shared))
    optimizers[1].step()
    with pytest.raises(RuntimeError, match="two DistributedOptimizers have the parameter '1.0.weight'"):
        optimizers[0].step()


def test_two_optimizers_over_one_model_may_take_turns():
    model = network()
    optimizers = [wrapped(model), wrapped(model, lr=0.02)]
    for k in range(STEPS):
        step(model, optimizers[k // 5 % 2])
    assert_equal_bits(model)


@pytest.mark.parametrize("kept", ["none", "all", "rank 0"])
def test_a_model_may_be_wrapped_again(kept):
    """A cell of a notebook that is run twice wraps its model again. Something may still refer to the first
    optimizer."""
    model, old = network(), []
    for _ in range(3):
        optimizer = wrapped(model)
        for _ in range(5):
            step(model, optimizer)
        if kept == "all" or kept == "rank 0" and hvd.rank() == 0:
            old.append(optimizer)
        del optimizer
        gc.collect()
    assert_equal_bits(model)
    assert len(old) == {"none": 0, "all": 3, "rank 0": 3 * (hvd.rank() == 0)}[kept]


def test_a_wrapped_optimizer_is_freed_at_once():
    import weakref
    model = network()
    optimizer = wrapped(model)
    step(model, optimizer)
    ended = weakref.ref(optimizer)
    del optimizer
    assert ended() is None


def test_an_optimizer_goes_on_in_the_next_world():
    model = network()
    spare, optimizer = network(), wrapped(model)
    if hvd.rank() == 0:
        wrapped(spare)
    step(model, optimizer)
    hvd.shutdown()
    hvd.init()
    for _ in range(3):
        step(model, optimizer)
    assert_equal_bits(model)


def test_ranks_that_joined_number_optimizers_as_the_others():
    models = [network(1), network(2)]
    optimizers = [wrapped(model) for model in models]
    if hvd.rank() > 0:
        for model, optimizer in zip(models, optimizers):
            step(model, optimizer)
    last = hvd.join()
    for model in models:
        hvd.broadcast_parameters(model.state_dict(), root_rank=last)
    for _ in range(3):
        step(models[1], optimizers[1])
    for _ in range(3):
        step(models[0], optimizers[0])
    assert hvd.allgather_object(optimizers[1]._number) == [0] * hvd.size()


def test_sparse_gradients_that_only_one_rank_has_in_the_first_step():
    table = torch.nn.Embedding(10, 2, sparse=True)
    dense = torch.nn.Linear(2, 2)
    model = torch.nn.ModuleList([table, dense])
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
    for k in range(4):
        optimizer.zero_grad()
        rows = table(torch.tensor([hvd.rank(), 9])) if k > 0 or hvd.rank() == 0 else torch.ones(2, 2)
        dense(rows).sum().backward()
        optimizer.step()
    assert table.weight.grad.is_sparse
    assert_equal_bits(model)


def test_an_optimizer_of_sparse_gradients_alone_notices_changes():
    table = torch.nn.Embedding(10, 2, sparse=True)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(table.parameters(), lr=0.1))
    other = torch.nn.Embedding(5, 2, sparse=True)
    for k in range(6):
        if k == 3:
            optimizer.add_param_group({"params": list(other.parameters())})
        optimizer.zero_grad()
        (table(torch.tensor([hvd.rank()])) + other(torch.tensor([hvd.rank()]))).sum().backward()
        optimizer.step()
    assert_equal_bits(table, other)
