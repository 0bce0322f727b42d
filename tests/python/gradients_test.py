"""DistributedOptimizer when gradients get other memory, or are None."""
import copy

import pytest
import torch

import anello.torch as hvd

STEPS = 4


@pytest.fixture(autouse=True)
def initialised(horovod):
    horovod.init()
    torch.manual_seed(0)


def mask(model, optimizer):
    """Pruned weights get no gradient."""
    for each in model.parameters():
        each.grad.data = each.grad.data * (each.grad.data > 0)


def convert_and_back(model, optimizer):
    model.double().float()


def convert(model, optimizer):
    model.double()


def change_memory_format(model, optimizer):
    model.to(memory_format=torch.channels_last)


def freeze(model, optimizer):
    """In torch a parameter without a gradient does not change; with a gradient of zero it still moves by momentum."""
    model[0].requires_grad_(False)


def empty_gradients(model, optimizer):
    for each in model.parameters():
        each.grad.data = torch.zeros_like(each)


def trained(model, gradients, after, distributed, sets_to_none=False, **backward):
    """The parameters after some steps of momentum with images of all ranks."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    optimizer = hvd.DistributedOptimizer(optimizer) if distributed else optimizer
    images = torch.randn(2 * hvd.size(), 2, 3, 3, generator=torch.Generator().manual_seed(1))
    images = images[hvd.rank()::hvd.size()] if distributed else images
    for _ in range(STEPS):
        optimizer.zero_grad(sets_to_none)
        model(images.to(next(model.parameters()).dtype)).tanh().pow(2).mean().backward(**backward)
        if gradients and distributed:
            optimizer.synchronize()
        if gradients:
            gradients(model, optimizer)
        if gradients and distributed:
            with optimizer.skip_synchronize():
                optimizer.step()
        else:
            optimizer.step()
        if after:
            after(model, optimizer)
    return torch.cat([each.detach().double().reshape(-1) for each in model.parameters()])


def assert_as_in_one_process(gradients=None, after=None, **options):
    model = torch.nn.Sequential(torch.nn.Conv2d(2, 3, 2), torch.nn.Conv2d(3, 2, 2))
    alone = trained(copy.deepcopy(model), gradients, after, False, **options)
    together = trained(model, gradients, after, True, **options)
    assert torch.allclose(together, alone, atol=1e-5)
    assert hvd.allgather_object(together.tolist()) == [together.tolist()] * hvd.size()


@pytest.mark.parametrize("sets_to_none", [False, True])
@pytest.mark.parametrize("gradients", [None, mask, empty_gradients])
def test_gradients_that_get_other_memory_before_the_step_are_of_all_ranks_in_the_next_one(gradients, sets_to_none):
    assert_as_in_one_process(gradients=gradients, sets_to_none=sets_to_none)


@pytest.mark.parametrize("sets_to_none", [False, True])
@pytest.mark.parametrize("after", [convert, convert_and_back, change_memory_format, empty_gradients, freeze])
def test_a_model_that_is_changed_between_two_steps_has_gradients_of_all_ranks(after, sets_to_none):
    assert_as_in_one_process(after=after, sets_to_none=sets_to_none)


@pytest.mark.filterwarnings("ignore:Using backward")
def test_a_backward_pass_may_make_a_graph_of_its_own():
    assert_as_in_one_process(create_graph=True)


def test_gradients_that_get_other_memory_on_their_way_are_an_error():
    model = torch.nn.Linear(3, 2)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1))
    model(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    model(torch.ones(1, 3)).sum().backward()
    mask(model, optimizer)
    with pytest.raises(RuntimeError, match="changed after loss.backward.* had sent them"):
        optimizer.step()


def test_a_tensor_with_a_tangent_is_refused():
    with torch.autograd.forward_ad.dual_level():
        given = torch.autograd.forward_ad.make_dual(torch.ones(3), torch.ones(3))
        with pytest.raises(NotImplementedError, match="jvp"):
            hvd.allreduce(given)
    assert hvd.allreduce(torch.ones(3), op=hvd.Sum).tolist() == [hvd.size()] * 3
