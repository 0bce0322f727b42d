"""anello.torch with tensors of GPUs: uses the fake plugin, and tensors that claim to lie on a GPU.

Torch has no CUDA here. The tests check which tensors take the way of the GPU, which streams and devices are passed on,
and whether results are in the right place. tests/gpu/torch_gpu.py runs on a real GPU.
"""
import time
import warnings

import pytest
import torch

import anello.torch as hvd
from anello.torch import gpus, ops
from fake_gpus import OnGpu, install, move_to_gpu, on_gpu

@pytest.fixture(autouse=True)
def ways(monkeypatch):
    """Records for each operation whether it used the GPU."""
    taken = install(monkeypatch.setattr)
    hvd.init()
    taken.clear()
    yield taken
    hvd.shutdown()


def total(of_rank):
    return sum(of_rank(rank) for rank in range(hvd.size()))


def test_the_plugin_is_found():
    assert gpus.enabled() and hvd.nccl_built() == 1 and hvd.cuda_built()


def test_reductions_and_broadcasts_take_tensors_where_they_lie(ways):
    mine = on_gpu(torch.full((5, 3), float(hvd.rank() + 1)))
    result = hvd.allreduce(mine, op=hvd.Sum, name="sum")
    assert torch.equal(result.cpu(), torch.full((5, 3), total(lambda rank: rank + 1.0)))
    assert type(result) is OnGpu and mine.cpu()[0, 0] == hvd.rank() + 1
    hvd.allreduce_(mine, op=hvd.Average, prescale_factor=2.0)
    assert mine.cpu()[0, 0] == total(lambda rank: rank + 1.0) * 2 / hvd.size()
    a, b = hvd.grouped_allreduce([mine, on_gpu(torch.ones(2, dtype=torch.int64))], op=hvd.Max)
    assert b.cpu().tolist() == [1, 1]
    sent = on_gpu(torch.full((4,), float(hvd.rank())))
    hvd.broadcast_(sent, root_rank=hvd.size() - 1)
    assert sent.cpu().tolist() == [hvd.size() - 1] * 4
    assert ways == [True] * 4


def test_a_tensor_that_is_not_contiguous_gets_its_result(ways):
    mine = on_gpu(torch.arange(6.0).reshape(2, 3).t())
    hvd.allreduce_(mine, op=hvd.Sum)
    assert torch.equal(mine.cpu(), torch.arange(6.0).reshape(2, 3).t() * hvd.size())
    assert ways == [True]


def test_what_a_gpu_does_not_do_goes_through_host_memory(ways):
    mine = on_gpu(torch.arange(4))
    assert hvd.allreduce(mine, op=hvd.Sum, prescale_factor=0.5).tolist() == [0, 0, hvd.size(), hvd.size()]
    assert hvd.allgather(mine).shape == (4 * hvd.size(),)
    assert hvd.reducescatter(on_gpu(torch.ones(hvd.size())), op=hvd.Sum).tolist() == [hvd.size()]
    assert ways == [False] * 3


def test_tensors_in_host_memory_stay_there(ways):
    assert hvd.allreduce(torch.ones(2), op=hvd.Sum).tolist() == [hvd.size()] * 2
    assert ways == [False]


def test_one_operation_has_one_memory():
    with pytest.raises(RuntimeError, match="must lie in the same memory, but some lie in host memory"):
        hvd.grouped_allreduce([torch.ones(1), on_gpu(torch.ones(1))])


def test_ranks_with_tensors_in_different_memories_are_told():
    if hvd.size() == 1:
        pytest.skip("one rank has one memory")
    mine = torch.ones(3) if hvd.rank() == 0 else on_gpu(torch.ones(3))
    with pytest.raises(hvd.HorovodInternalError, match="rank 0 has tensors that go through host memory, rank 1 has tensors that stay on"):
        hvd.allreduce(mine, name="different")


def test_process_sets_have_gpus_too(ways):
    if hvd.size() == 1:
        pytest.skip("one rank has one process set")
    last = hvd.add_process_set([hvd.size() - 1])
    if last.included():
        ways.clear()
        assert hvd.allreduce(on_gpu(torch.ones(2)), process_set=last).cpu().tolist() == [1, 1]
        assert ways == [True]


def test_a_process_set_of_some_ranks_does_not_use_nccl(capfd):
    if hvd.size() < 3:
        pytest.skip("it needs a set of some ranks that has several")
    some = hvd.add_process_set([0, 2])
    if not some.included():
        return
    assert hvd.allreduce(on_gpu(torch.ones(2)), op=hvd.Sum, process_set=some).cpu().tolist() == [2, 2]
    written, end = "", time.monotonic() + 30
    while "named operations of some ranks have no common order" not in written and time.monotonic() < end:
        written += capfd.readouterr().err
    assert "staged: named operations of some ranks have no common order with those of all" in written


def model():
    torch.manual_seed(1)
    return move_to_gpu(torch.nn.Sequential(torch.nn.Linear(6, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2)))


@pytest.mark.parametrize("compression", [hvd.Compression.none, hvd.Compression.fp16])
def test_an_optimizers_gradients_travel_in_buckets_on_the_gpu(ways, compression):
    mine, alone = model(), model()
    assert all(each.is_cuda for each in mine.parameters())
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(mine.parameters(), lr=0.1), mine.named_parameters(),
                                         compression=compression)
    reference = torch.optim.SGD(alone.parameters(), lr=0.1)
    generator = torch.Generator().manual_seed(2)
    for step in range(4):
        batch = torch.rand(hvd.size(), 8, 6, generator=generator)
        optimizer.zero_grad()
        ways.clear()
        mine(batch[hvd.rank()]).square().mean().backward()
        optimizer.step()
        assert step == 0 or True in ways  # the first gradients are torch's own tensors
        reference.zero_grad()
        alone(batch).square().mean().backward()
        reference.step()
    tolerance = 1e-6 if compression is hvd.Compression.none else 1e-3
    for one, other in zip(mine.parameters(), alone.parameters()):
        assert torch.allclose(one.cpu(), other.cpu(), atol=tolerance)
    assert [bucket._flat[0].is_cuda for bucket in optimizer._buckets] == [True]


def test_the_state_of_an_optimizer_comes_to_the_gpu_of_each_rank(ways):
    mine = model()
    optimizer = torch.optim.SGD(mine.parameters(), lr=0.1, momentum=0.9)
    if hvd.rank() == 0:
        for each in mine.parameters():
            each.grad = on_gpu(torch.full_like(each, 3.0))
        optimizer.step()
    ways.clear()
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    momenta = [optimizer.state[each]["momentum_buffer"] for each in mine.parameters()]
    assert all(each.device.index == hvd.local_rank() for each in momenta)
    assert all(float(each.cpu().min()) == float(each.cpu().max()) == 3.0 for each in momenta)
    assert ways.count(True) == len(momenta) == 4


def test_without_a_gpu_on_every_rank_tensors_are_copied(monkeypatch, ways):
    last = hvd.rank() == hvd.size() - 1
    hvd.shutdown()
    monkeypatch.setattr(gpus, "usable", lambda: not last)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    with warnings.catch_warnings(record=True) as warned:
        hvd.init()
    assert any("sees no GPU" in str(each.message) for each in warned) == last
    ways.clear()
    assert not gpus.enabled()
    assert hvd.allreduce(on_gpu(torch.ones(2)), op=hvd.Sum).tolist() == [hvd.size()] * 2
    assert ways == [False]
    assert ops.synchronize(hvd.broadcast_async(on_gpu(torch.ones(2)), 0)).tolist() == [1, 1]


def test_a_rank_that_trains_on_its_processor_has_the_same_buckets(monkeypatch, ways):
    last = hvd.rank() == hvd.size() - 1
    hvd.shutdown()
    monkeypatch.setattr(gpus, "usable", lambda: not last)
    hvd.init()
    mine = model() if not last else torch.nn.Sequential(torch.nn.Linear(6, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))
    hvd.broadcast_parameters(mine.state_dict(), root_rank=hvd.size() - 1)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(mine.parameters(), lr=0.1), mine.named_parameters())
    for step in range(3):
        optimizer.zero_grad()
        mine(torch.full((2, 6), float(hvd.rank() + step))).sum().backward()
        optimizer.step()
    assert len(optimizer._buckets) == 1 and True not in ways
    weights = torch.cat([each.detach().cpu().reshape(-1) for each in mine.parameters()])
    assert torch.equal(hvd.broadcast(weights, 0), weights)
