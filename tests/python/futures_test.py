"""Futures of the operations of torch.distributed: what a program does as soon as one is complete, and their limit."""
import threading
import time
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState, powerSGD_hook

from anello.torch import distributed_work

LIMIT = timedelta(seconds=300)
pytestmark = pytest.mark.usefixtures("process_group")


def start(value=1.0):
    return dist.all_reduce(torch.full((3,), value), async_op=True)


def sums(value=1.0):
    return [value * dist.get_world_size()] * 3


@pytest.mark.parametrize("wait", [lambda work: work.wait(), lambda work: work.get_future().wait()])
def test_a_callback_may_wait_for_operations(wait):
    inner = []

    def start_two(_):
        for value in (2.0, 3.0):
            work = start(value)
            wait(work)
            inner.append(work.result()[0].tolist())

    start().get_future().then(start_two).wait()
    assert inner == [sums(2.0), sums(3.0)]


def test_callbacks_may_wait_for_callbacks_of_others():
    def nested(depth):
        return start(depth).get_future().then(lambda _: nested(depth - 1) if depth > 0 else "the last").wait()

    assert nested(5.0) == "the last"


def test_operations_that_nobody_watches_need_no_thread_for_callbacks():
    before = threading.active_count()
    for _ in range(20):
        dist.all_reduce(torch.ones(1))
    assert threading.active_count() <= before + 1  # that of the group


def test_threads_of_callbacks_are_used_again():
    for _ in range(50):
        start().get_future().then(lambda done: done.value()).wait()
    named = [each for each in threading.enumerate() if each.name == "anello callbacks"]
    assert len(named) < 20


def test_what_a_callback_raises_is_told_and_harms_nobody():
    def fail(_):
        raise KeyError("lost")

    with pytest.raises(RuntimeError, match="lost"):
        start().get_future().then(fail).wait()
    assert start().get_future().wait()[0].tolist() == sums()
    assert distributed_work._callbacks.wait(LIMIT.total_seconds())


def test_powersgd_trains():
    torch.manual_seed(0)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 64))
    model.register_comm_hook(PowerSGDState(None, 1, start_powerSGD_iter=2, min_compression_rate=0.5), powerSGD_hook)
    for _ in range(4):
        model.zero_grad()
        model(torch.ones(4, 64)).sum().backward()
    assert torch.allclose(model.module.weight.grad, torch.full((64, 64), 4.0), rtol=1e-4)


def test_the_limit_of_a_group_ends_a_backward_pass_and_the_operation_goes_on():
    group = dist.new_group()
    if dist.get_rank() == 0:
        group._limit = timedelta(seconds=0.2)  # given to new_group, it would also limit how late other ranks may come
    values = torch.ones(3)
    if dist.get_rank() == 0:
        work = dist.all_reduce(values, group=group, async_op=True)
        with pytest.raises(RuntimeError, match="allreduce of 3 float32 is not done, but the timeout of 0:00:00.2"):
            work.get_future().wait()
        assert not work.is_completed()
    dist.barrier()
    if dist.get_rank() > 0:
        dist.all_reduce(values, group=group)
    else:
        work.wait(LIMIT)
        assert work.get_future().wait()[0] is values
    assert values.tolist() == sums()
    dist.barrier()


def test_a_receive_has_no_limit_until_it_is_waited_for():
    group = dist.new_group()
    group._limit = timedelta(seconds=0.1)
    if dist.get_rank() == 0:
        got = torch.zeros(1)
        work = dist.irecv(got, 1, group=group)
        future = work.get_future()
        time.sleep(0.5)
    dist.barrier()
    if dist.get_rank() == 1:
        dist.send(torch.ones(1), 0, group=group)
    if dist.get_rank() == 0:
        assert future.wait()[0].item() == 1
    dist.barrier()
