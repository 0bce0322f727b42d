"""Futures of the operations of torch.distributed: callbacks of complete futures, and their limit."""
import threading
import time
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState, powerSGD_hook

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
    assert threading.active_count() <= before + 1  # the group's thread


def test_callbacks_need_one_more_thread():
    before = threading.active_count()
    for _ in range(50):
        start().get_future().then(lambda done: start().wait()).wait()
    assert threading.active_count() <= before + 2


def test_callbacks_come_in_the_order_of_the_operations():
    """This order makes all ranks start the operations of their callbacks in the same order."""
    for _ in range(50):
        works, futures = [], [start().get_future() for _ in range(4)]
        done = [each.then(lambda _, k=k, works=works: works.append((k, start(float(k))))) for k, each in enumerate(futures)]
        for each in done:
            each.wait()
        assert [k for k, _ in works] == [0, 1, 2, 3]
        for k, work in works:
            work.wait()
            assert work.result()[0].tolist() == sums(float(k))


def test_a_future_asked_for_at_the_end_is_complete():
    work = start()
    work.wait()
    time.sleep(0.1)  # its thread is done with it
    assert work.get_future().wait()[0].tolist() == sums()


def test_without_a_further_thread_callbacks_run_all_the_same(monkeypatch):
    start().wait()  # the group has a thread for operations; the one for callbacks may be new
    group = dist.new_group()
    dist.all_reduce(torch.ones(1), group=group)

    def cannot_start(_):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as full:
        full.setattr(threading.Thread, "start", cannot_start)
        future = dist.all_reduce(torch.ones(1), group=group, async_op=True).get_future()
        assert future.then(lambda _: "run").wait() == "run"


def test_what_a_callback_raises_is_told_and_harms_nobody():
    def fail(_):
        raise KeyError("lost")

    with pytest.raises(RuntimeError, match="lost"):
        start().get_future().then(fail).wait()
    assert start().get_future().wait()[0].tolist() == sums()


def test_powersgd_trains():
    """There are several buckets, so the hook must wait for each bucket, as the README says.

    Otherwise the order of operations might differ.
    """
    state = PowerSGDState(None, 1, start_powerSGD_iter=2, min_compression_rate=0.5)

    def hook(state, bucket):
        made = powerSGD_hook(state, bucket)
        made.wait()
        return made

    torch.manual_seed(0)
    layers = [torch.nn.Linear(64, 64 * (1 + k)) if k % 2 == 0 else torch.nn.Linear(64 * k, 64) for k in range(4)]
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(*layers), bucket_cap_mb=0.01)
    model.register_comm_hook(state, hook)
    for step in range(6):
        model.zero_grad()
        model(torch.full((4, 64), 1.0 + dist.get_rank() + step)).sum().backward()
        mine = torch.cat([each.grad.flatten() for each in model.parameters()])
        lowest, highest = mine.clone(), mine.clone()
        dist.all_reduce(lowest, dist.ReduceOp.MIN)
        dist.all_reduce(highest, dist.ReduceOp.MAX)
        assert (lowest == highest).all() and mine.abs().max() > 0


def group_of_the_impatient():
    """A group in which rank 0 has a short limit. If new_group() got this limit, it would also limit how late other
    ranks may come."""
    group = dist.new_group()
    if dist.get_rank() == 0:
        group._limit = timedelta(seconds=0.2)
    return group


def test_the_limit_of_a_group_ends_waits_for_futures_and_the_operations_go_on():
    group, values = group_of_the_impatient(), torch.ones(2, 3)
    if dist.get_rank() == 0:
        works = [dist.all_reduce(each, group=group, async_op=True) for each in values]
        for work in works[::-1]:  # the second work reaches its limit during the wait for the first
            with pytest.raises(RuntimeError, match="allreduce of 3 float32 is not done, but the timeout of 0:00:00.2"):
                work.get_future().wait()
            assert not work.is_completed()
        third = dist.all_reduce(torch.ones(1), group=group, async_op=True)  # comes when the first is late
        with pytest.raises(RuntimeError, match="allreduce of 1 float32 is not done"):
            third.get_future().wait()
    dist.barrier()
    if dist.get_rank() > 0:
        works = [dist.all_reduce(each, group=group, async_op=True) for each in values]
        dist.all_reduce(torch.ones(1), group=group)
    for work in works:
        work.wait(LIMIT)
    assert dist.get_rank() > 0 or works[0].get_future().wait()[0].tolist() == sums()
    assert values.tolist() == [sums(), sums()]
    dist.barrier()


def test_the_limit_of_a_group_ends_a_backward_pass():
    group = group_of_the_impatient()
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(3, 3), process_group=group)
    if dist.get_rank() == 0:
        with pytest.raises(RuntimeError, match="allreduce of 12 float32 is not done, but the timeout of 0:00:00.2"):
            model(torch.ones(1, 3)).sum().backward()
    dist.barrier()
    if dist.get_rank() > 0:
        model(torch.ones(1, 3)).sum().backward()
    dist.barrier()


def test_a_future_of_a_receive_has_no_limit():
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
