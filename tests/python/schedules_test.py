"""DistributedOptimizer with torch's tools for optimizers: learning-rate schedules, states and copies."""
import copy
import pickle
import warnings

import pytest
import torch

import anello.torch as hvd


@pytest.fixture(autouse=True)
def initialised(horovod):
    horovod.init()
    torch.manual_seed(0)


def job(lr=1.0):
    model = torch.nn.Linear(4, 4)
    plain = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    return model, plain, torch.optim.lr_scheduler.StepLR(plain, 1, 0.5)


def step(model, optimizer):
    optimizer.zero_grad()
    model(torch.ones(2, 4)).pow(2).sum().backward()
    optimizer.step()


def test_a_schedule_made_before_wrapping_gives_no_warning():
    model, plain, schedule = job()
    optimizer = hvd.DistributedOptimizer(plain, model.named_parameters())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for k in range(3):
            step(model, optimizer)
            schedule.step()
            assert optimizer.param_groups[0]["lr"] == 0.5**(k + 1)


def test_a_schedule_made_before_wrapping_is_warned_of_if_no_step_was_taken():
    model, plain, schedule = job()
    hvd.DistributedOptimizer(plain, model.named_parameters())
    with pytest.warns(UserWarning, match="before `optimizer.step"):
        schedule.step()


def test_a_schedule_made_before_wrapping_holds_after_the_state_was_loaded():
    model, plain, schedule = job()
    optimizer = hvd.DistributedOptimizer(plain, model.named_parameters())
    step(model, optimizer)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    for k in range(3):
        step(model, optimizer)
        schedule.step()
        assert optimizer.param_groups[0]["lr"] == 0.5**(k + 1)
    assert plain.state is optimizer.state


@pytest.mark.parametrize("how", [pickle.dumps, copy.copy, copy.deepcopy])
def test_copies_are_refused(how):
    optimizer = hvd.DistributedOptimizer(job()[1])
    with pytest.raises(TypeError, match="a DistributedOptimizer cannot be pickled or copied, .*: save its state_dict"):
        how(optimizer)
    optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))
