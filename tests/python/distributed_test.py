"""The backend "anello" of torch.distributed, on every rank of a world."""
import gc
import os
import signal
import threading
import time
import types
import weakref
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist

import anello.torch.distributed  # registers the backend
from anello.torch import distributed_work, shared_buckets
from anello.torch.shared_memory_hook import SharedMemoryState, shared_memory_hook


@pytest.fixture(scope="module", autouse=True)
def rank_and_size():
    dist.init_process_group("anello")
    yield dist.get_rank(), dist.get_world_size()
    dist.destroy_process_group()


def rank():
    return dist.get_rank()


def size():
    return dist.get_world_size()


def test_newer_versions_of_torch_learn_that_tensors_lie_in_host_memory(monkeypatch):
    given = []
    monkeypatch.setattr(dist.Backend, "register_backend",
                        lambda name, make, extended_api=False, devices=None: given.append((name, devices)))
    anello.torch.distributed._register()
    assert given == [("anello", ["cpu"])]


@pytest.mark.parametrize("op, expected", [(dist.ReduceOp.SUM, sum), (dist.ReduceOp.MAX, max), (dist.ReduceOp.MIN, min)])
def test_all_reduce(op, expected):
    made = torch.full((2, 3), float(rank() + 1))
    dist.all_reduce(made, op)
    assert (made == expected(range(1, size() + 1))).all()


def test_strides_do_not_matter():
    whole = torch.zeros(3, 3)
    dist.all_reduce(whole[:, 1].fill_(1))
    dist.broadcast(whole.t()[0].fill_(rank()), 1)
    assert whole.tolist() == [[1, size(), 0]] * 3


def test_all_gather_and_reduce_scatter():
    gathered = [torch.zeros(2) for _ in range(size())]
    dist.all_gather(gathered, torch.full((2,), float(rank())))
    assert [each.tolist() for each in gathered] == [[r, r] for r in range(size())]
    out = torch.zeros(2)
    dist.reduce_scatter(out, [torch.full((2,), float(r)) for r in range(size())])
    assert (out == rank() * size()).all()


def test_send_and_recv():
    if rank() == 0:
        dist.send(torch.arange(3), 1)
    elif rank() == 1:
        got = torch.zeros(3, dtype=torch.int64)
        dist.recv(got, 0)
        assert got.tolist() == [0, 1, 2]
    dist.barrier()


def test_a_batch_of_transfers():
    got, before = torch.zeros(4), (rank() - 1) % size()
    transfers = [dist.P2POp(dist.isend, torch.full((4,), rank() + 1.0), (rank() + 1) % size()),
                 dist.P2POp(dist.irecv, got, before)]
    for work in dist.batch_isend_irecv(transfers):
        work.wait()
    assert (got == before + 1).all()


def test_recv_without_a_source_takes_what_any_rank_sends():
    sources = []
    for receiver in range(size()):
        if rank() != receiver:
            for _ in ("for recv", "for irecv"):
                dist.send(torch.full((10,), float(rank())), receiver)
            continue
        for _ in range(size() - 1):
            got = torch.zeros(10)
            sources.append(dist.recv(got))
            assert (got == sources[-1]).all()
            columns = torch.zeros(10, 2)  # not contiguous
            work = dist.irecv(columns[:, 0])
            work.wait()
            sources.append(work._source_rank())
            assert (columns[:, 0] == sources[-1]).all() and (columns[:, 1] == 0).all()
    assert sorted(sources) == sorted(2 * [each for each in range(size()) if each != rank()])


def test_recv_without_a_source_in_a_group_names_the_rank_of_the_world():
    others = dist.new_group([1, 0])
    if rank() == 0:
        dist.send(torch.full((), 5.0), 1, group=others)
    elif rank() == 1:
        got = torch.zeros(())
        assert dist.recv(got, group=others) == 0 and got.item() == 5
    dist.barrier()


def test_a_receive_that_names_its_source_comes_before_one_that_does_not():
    if rank() == 0:
        first, second = torch.zeros(1), torch.zeros(1)
        named = dist.irecv(first, 1)
        unnamed = dist.irecv(second)
    dist.barrier()
    if rank() == 1:
        dist.send(torch.ones(1), 0)
        dist.send(torch.full((1,), 2.0), 0)
    if rank() == 0:
        assert named.wait() and unnamed.wait()
        assert (first.item(), second.item(), named.source_rank(), unnamed.source_rank()) == (1, 2, 1, 1)
    dist.barrier()


def test_a_wait_for_any_source_has_a_limit():
    got = torch.zeros(1)
    if rank() == 0:
        work = dist.irecv(got)
        with pytest.raises(RuntimeError, match="recv of 1 float32 from any rank is not done, .* timeout of 0:00:00.05"):
            work.wait(timedelta(seconds=0.05))
        assert not work.is_completed() and work.source_rank() == -1
    dist.barrier()
    if rank() == 1:
        dist.send(torch.ones(1), 0)
    if rank() == 0:
        assert work.wait() and got.item() == 1
    dist.barrier()


def test_later_operations_do_not_wait_for_a_receive():
    """The other rank sends the tensor for the receive only after these operations."""
    answer = torch.zeros(1)
    receive = dist.irecv(answer, 1) if rank() == 0 else None
    group = dist.new_group(list(range(size())))
    dist.all_reduce(torch.ones(1))
    dist.all_reduce(torch.ones(1), group=group)
    if rank() == 0:
        dist.send(torch.ones(1), 1)
        receive.wait()
        assert answer.item() == 2
    elif rank() == 1:
        got = torch.zeros(1)
        dist.recv(got, 0)
        dist.send(got + 1, 0)
    dist.barrier()


def test_asynchronous_operations_live_until_they_are_done():
    works = [dist.all_reduce(torch.full((1000,), 1.0), async_op=True) for _ in range(50)]
    assert all(work.wait() for work in works) and all(work.is_completed() for work in works)
    for _ in range(50):
        dist.all_reduce(torch.ones(1000), async_op=True)  # the program keeps no handle
    dist.barrier()
    future = dist.all_reduce(torch.ones(2), async_op=True).get_future()
    assert future.wait()[0].tolist() == [size()] * 2


def test_torch_may_wait_after_an_operation_is_done(monkeypatch):
    """torch's C++ code may keep an operation whose Python part is gone."""
    add = distributed_work.Completer.add
    monkeypatch.setattr(distributed_work.Completer, "add", lambda completer, each: (
        each.complete() if isinstance(each, distributed_work.Operation) else add(completer, each)))
    tensors = [torch.full((3,), float(rank())) for _ in range(10)]
    dist._broadcast_coalesced(dist.distributed_c10d._get_default_group(), tensors, 8, 1)
    assert all((each == 1).all() for each in tensors)


def start_and_drop(count):
    """Starts operations and drops their handles. When all are done, returns weak references to their tensors."""
    tensors = [torch.ones(1) for _ in range(count)]
    for each in tensors:
        dist.all_reduce(each, async_op=True)
    dist.barrier()
    return [weakref.ref(each) for each in tensors]


def test_operations_that_nobody_waits_for_are_forgotten():
    assert sum(kept() is not None for kept in start_and_drop(50)) <= 4


def test_an_operation_that_was_seen_done_is_forgotten():
    tensor = torch.ones(1)
    work, kept = dist.all_reduce(tensor, async_op=True), weakref.ref(tensor)
    while not work.is_completed():
        time.sleep(0.001)
    del work, tensor
    dist.barrier()  # the thread that completes operations does not hold the operation above any more
    assert kept() is None


def test_other_threads_do_not_end_what_torch_waits_for():
    """torch's C++ code keeps an operation whose Python part is gone, in the thread that started the operation."""
    (kept,) = start_and_drop(1)
    other = threading.Thread(target=start_and_drop, args=(100,))
    other.start()
    other.join()
    assert kept() is not None


def test_what_torch_may_still_wait_for_stays_without_its_tensors():
    """Before torch 2.8 the C++ part of an operation never ends when the Python part is gone."""
    tensor = torch.ones(1)
    work = dist.all_reduce(tensor, async_op=True)
    kept, kept_tensor = weakref.ref(work), weakref.ref(tensor)
    del work, tensor
    start_and_drop(100)
    assert kept() is not None and kept().wait() and kept_tensor() is None


def test_lists():
    gathered = [torch.zeros(2) for _ in range(size())] if rank() == 1 else None
    dist.gather(torch.full((2,), float(rank())), gathered, dst=1)
    assert gathered is None or [each.tolist() for each in gathered] == [[r, r] for r in range(size())]
    out = torch.zeros(2)
    dist.scatter(out, [torch.full((2,), float(r)) for r in range(size())] if rank() == 1 else None, src=1)
    assert (out == rank()).all()
    received = [torch.zeros(r + 1) for r in range(size())]
    dist.all_to_all(received, [torch.full((rank() + 1,), float(10 * rank() + r)) for r in range(size())])
    assert [each.tolist() for each in received] == [[10 * r + rank()] * (r + 1) for r in range(size())]
    reduced = torch.ones(2)
    dist.reduce(reduced, dst=1)
    assert rank() != 1 or (reduced == size()).all()
    ours, theirs = torch.arange(size()), torch.zeros(size(), dtype=torch.int64)
    dist.all_to_all_single(theirs, ours)
    assert (theirs == rank()).all()


def test_sparse_tensors_are_summed():
    made = torch.sparse_coo_tensor([[0, rank() + 1]], [1.0, 2.0], (size() + 1,))
    dist.all_reduce(made)
    assert made.to_dense().tolist() == [size()] + [2.0] * size()


def test_a_timeout_of_the_group_ends_the_wait():
    late = dist.new_group()
    if rank() == 0:
        late._limit = timedelta(seconds=0.2)  # a limit for new_group would also limit how late ranks may come
        for call, what in ((lambda: dist.barrier(late), "barrier"),
                           (lambda: dist.all_reduce(torch.ones(3), group=late), "allreduce of 3 float32"),
                           (lambda: dist.recv(torch.ones(2), 1, group=late), "recv of 2 float32 from rank 1 of")):
            with pytest.raises(RuntimeError, match=f"^{what}.* is not done, but the timeout of 0:00:00.2"):
                call()
    dist.barrier()
    if rank() > 0:
        dist.barrier(late)
        dist.all_reduce(torch.ones(3), group=late)
    if rank() == 1:
        dist.send(torch.ones(2), 0, group=late)


def test_groups():
    first, everyone = dist.new_group([0]), dist.new_group(list(reversed(range(size()))))
    made = torch.ones(1)
    if rank() == 0:
        dist.all_reduce(made, group=first)
        assert made.item() == 1
    dist.all_reduce(made, group=everyone)
    assert made.item() == size()


def assert_trains_as_one(width, state=None, **options):
    """Checks that a data parallel model, also with shared_memory_hook, computes the same as a model of one process.

    Returns the model.
    """
    torch.manual_seed(0)
    alone = torch.nn.Sequential(torch.nn.Linear(4, width), torch.nn.Tanh(), torch.nn.Linear(width, 1)).double()
    data = torch.randn(2 * size(), 4, dtype=torch.float64)
    torch.manual_seed(rank())
    together = torch.nn.Sequential(torch.nn.Linear(4, width), torch.nn.Tanh(), torch.nn.Linear(width, 1)).double()
    if rank() == 0:
        together.load_state_dict(alone.state_dict())
    together = torch.nn.parallel.DistributedDataParallel(together, **options)
    if state is not None:
        together.register_comm_hook(state, shared_memory_hook)
    for model, part in ((alone, data), (together, data[2 * rank():2 * rank() + 2])):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1 / width)
        for _ in range(5):
            optimizer.zero_grad()
            model(part).pow(2).mean().backward()
            optimizer.step()
    assert all(torch.allclose(a, b) for a, b in zip(alone.parameters(), together.parameters()))
    return together


def expect_no_moved_buckets(state):
    """Threads that complete operations may need a moment to release the last operation's bucket."""
    end = time.monotonic() + 300
    while len(state.buckets) and time.monotonic() < end:
        time.sleep(0.01)
    assert not len(state.buckets)


def test_the_reducer_of_compiled_models_which_has_no_buckets_is_refused_by_name():
    with pytest.raises(TypeError, match="python_reducer of torch.compile does not make: register no hook"):
        shared_memory_hook(SharedMemoryState(), (torch.ones(1), torch.ones(1)))


def test_data_parallel_trains_as_one():
    assert_trains_as_one(8)


@pytest.mark.parametrize("view", [False, True])
def test_large_buckets_move_to_shared_memory_where_the_hook_asks_for_it_and_are_freed(view):
    state = SharedMemoryState()
    model = assert_trains_as_one(20000, state, gradient_as_bucket_view=view)
    assert len(state.buckets) == (1 if state.process_group.maps_memory else 0)
    gradient = model.module[0].weight.grad.data
    before = gradient.clone()
    del model
    gc.collect()
    expect_no_moved_buckets(state)
    assert before.abs().max() > 0 and (gradient == before).all()


def test_full_shared_memory_of_torch_is_left_alone(monkeypatch):
    monkeypatch.setattr(os, "statvfs", lambda path: types.SimpleNamespace(f_bavail=1000, f_frsize=4096))
    state = SharedMemoryState()
    model = assert_trains_as_one(20000, state)
    assert model and not len(state.buckets)


def test_one_rank_may_have_no_room_for_its_buckets(monkeypatch):
    if rank() == 1:
        monkeypatch.setattr(os, "statvfs", lambda path: types.SimpleNamespace(f_bavail=0, f_frsize=4096))
    state = SharedMemoryState()
    model = assert_trains_as_one(20000, state)
    assert model and len(state.buckets) == (1 if state.process_group.maps_memory and rank() != 1 else 0)


def test_without_the_hook_no_memory_is_mapped_anew(monkeypatch):
    monkeypatch.setattr(shared_buckets, "_libc", None)
    assert_trains_as_one(20000)


def test_the_hook_needs_a_group_of_this_backend():
    gloo = dist.new_group(backend="gloo")
    with pytest.raises(TypeError, match="of the backend 'anello'.*init_process_group"):
        SharedMemoryState(gloo)


def test_sparse_tensors_are_refused_by_name_elsewhere():
    sparse = torch.ones(2).to_sparse()
    for call in (lambda: dist.broadcast(sparse, 0), lambda: dist.all_reduce(sparse, dist.ReduceOp.MAX)):
        with pytest.raises((ValueError, RuntimeError), match="sparse"):
            call()


def test_other_devices_are_refused_with_the_remedy():
    group = dist.distributed_c10d._get_default_group()
    with pytest.raises(RuntimeError, match=r'not on cuda:0: .* new_group\(backend="nccl"\); of "cpu:anello,cuda:nccl"'):
        group.get_backend("cuda:0")


def test_a_child_of_fork_ends_though_a_thread_of_its_parent_had_locks():
    world, stays, held = anello.torch.distributed._world, threading.Event(), threading.Event()

    def hold():
        with world._receiving:
            held.set()
            stays.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        anello.torch.distributed._at_exit()
        os._exit(0)
    stays.set()
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_receive_from_any_rank_refuses_a_wrong_tensor_at_the_call():
    with pytest.raises(TypeError, match="quint8"):
        dist.irecv(torch.quantize_per_tensor(torch.zeros(2), 1, 0, torch.quint8))
