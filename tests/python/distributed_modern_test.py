"""Calls that torch.distributed has added since 1.13, over the backend "anello"."""
import contextlib
import importlib
import inspect
import time
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist

pytestmark = pytest.mark.usefixtures("process_group")


def since(has):
    return pytest.mark.skipif(not has, reason="came with a later torch")


def rank():
    return dist.get_rank()


def size():
    return dist.get_world_size()


def total():
    return sum(range(1, size() + 1))


def mine(count=4):
    return torch.full((count,), rank() + 1.0)


def of_torch(*modules, has):
    """Returns the first of these modules that has this name, because torch moves names from one module to another."""
    for each in modules:
        with contextlib.suppress(ImportError, ValueError):  # Python 3.11 cannot load some modules of torch 1.13
            module = importlib.import_module(each)
            if hasattr(module, has):
                return module
    return pytest.skip(f"{has} came with a later torch")


def compiled(what):
    try:
        return torch.compile(what, backend="aot_eager")
    except (AttributeError, RuntimeError) as error:
        return pytest.skip(f"not in this torch, or not with this Python: {error}")


def columns(tensor):
    return tensor.view(size(), -1)[:, 0].tolist()


EVERYONE = [1.0, 2.0, 3.0, 4.0]


def test_tensors_are_gathered_and_scattered_in_one():
    for out in (torch.zeros(4 * size()), torch.zeros(size(), 4)):
        dist.all_gather_into_tensor(out, mine())
        assert columns(out) == EVERYONE[:size()]
    part = torch.zeros(4)
    dist.reduce_scatter_tensor(part, mine(4 * size()))
    assert (part == total()).all()


@since(hasattr(dist, "gather_single"))
def test_gather_single():
    out = torch.zeros(4 * size()) if rank() == 1 else None
    dist.gather_single(mine(), out, dst=1)
    assert out is None or columns(out) == EVERYONE[:size()]


def test_objects():
    gathered = [None] * size()
    dist.all_gather_object(gathered, {"rank": rank()})
    assert gathered == [{"rank": each} for each in range(size())]
    sent = [rank(), "a"]
    dist.broadcast_object_list(sent, 1)
    assert sent == [1, "a"]


@since("async_ops" in inspect.signature(getattr(dist, "_coalescing_manager", since)).parameters)
def test_coalesced_collectives():
    reduced, wide, part = [mine(), mine(2)], torch.zeros(2 * size()), torch.zeros(3)
    with dist._coalescing_manager():
        for each in reduced:
            dist.all_reduce(each)
    with dist._coalescing_manager(async_ops=True) as gathering:
        dist.all_gather_into_tensor(wide, mine(2))
    gathering.wait()
    with dist._coalescing_manager():
        dist.reduce_scatter_tensor(part, mine(3 * size()))
    assert all((each == total()).all() for each in reduced + [part]) and columns(wide) == EVERYONE[:size()]


def test_functional_collectives_also_when_compiled():
    functional = pytest.importorskip("torch.distributed._functional_collectives")
    everyone = dist.group.WORLD
    assert (functional.all_reduce(mine(), "sum", everyone) == total()).all()
    assert columns(functional.all_gather_tensor(mine(), 0, everyone)) == EVERYONE[:size()]
    assert (functional.reduce_scatter_tensor(mine(4 * size()), "sum", 0, everyone) == total()).all()
    double = compiled(lambda given, group: functional.all_reduce(given, "sum", group) * 2)
    # Where new_group() does not accept a name yet, it takes ranks, and groups of torch's own class.
    has_names = "group_desc" in inspect.signature(dist.new_group).parameters
    assert (double(mine(), everyone if has_names else list(range(size()))) == 2 * total()).all()


def test_many_functional_collectives_are_waited_for_late():
    """torch's C++ code waits for these operations. It has an object for each operation, and one for each tensor of a
    list."""
    functional = pytest.importorskip("torch.distributed._functional_collectives")
    alone = [functional.all_reduce(mine(), "sum", dist.group.WORLD) for _ in range(20)]
    listed = functional.all_reduce_coalesced([mine()] * 3, "sum", dist.group.WORLD)
    dist.barrier()
    assert all((each * 1 == total()).all() for each in alone + list(listed))


def test_a_compiled_model_trains_as_one_that_is_not():
    def trained(wrap):
        torch.manual_seed(0)
        model = torch.nn.Linear(300, 300)  # its buckets are agreed upon anew in the second step
        together = wrap(torch.nn.parallel.DistributedDataParallel(model))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(3):
            optimizer.zero_grad()
            together(torch.full((2, 300), rank() + step + 1.0)).pow(2).mean().backward()
            optimizer.step()
        return list(model.parameters())

    assert all(torch.equal(one, other) for one, other in zip(trained(compiled), trained(lambda model: model)))


@since(hasattr(dist, "init_device_mesh"))  # older torch has meshes of the host only for "gloo"
def test_a_sharded_tensor():
    tensors = of_torch("torch.distributed.tensor", "torch.distributed._tensor", has="distribute_tensor")
    mesh = dist.init_device_mesh("cpu", (size(),))
    whole = torch.arange(8.0 * size()).view(2 * size(), 4)
    sharded = tensors.distribute_tensor(whole, mesh, [tensors.Shard(0)])
    assert (sharded.to_local() == whole.chunk(size())[rank()]).all()
    assert (sharded.redistribute(mesh, [tensors.Replicate()]).to_local() == whole).all()


def test_a_fully_sharded_model_trains_as_one():
    fsdp = of_torch("torch.distributed.fsdp", has="fully_shard")
    if not hasattr(torch.cpu.Stream, "record_event"):
        pytest.skip("in torch 2.6 for GPUs alone")

    def model():
        torch.manual_seed(0)
        return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)).double()

    alone, together = model(), model()
    data = torch.randn(2 * size(), 4, dtype=torch.float64)
    fsdp.fully_shard(together, mesh=dist.init_device_mesh("cpu", (size(),)))
    for each, part in ((alone, data), (together, data[2 * rank():2 * rank() + 2])):
        optimizer = torch.optim.Adam(each.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            each(part).pow(2).mean().backward()
            optimizer.step()
    for one, part in zip(alone.parameters(), together.parameters()):
        assert torch.allclose(one, part.full_tensor())


@since("group_desc" in inspect.signature(dist.new_group).parameters)
def test_groups_have_names():
    group = dist.new_group(list(range(size())), group_desc="mine")
    assert group.group_name != dist.group.WORLD.group_name and group.group_desc == "mine"


@since(hasattr(dist, "split_group"))
def test_a_group_is_split():
    try:
        group = dist.split_group(split_ranks=[[0], list(range(1, size()))])
    except RuntimeError as error:
        if "No device associated" not in str(error):
            raise
        pytest.skip("came with a later torch; before that it was for GPUs alone")
    made = mine()
    dist.all_reduce(made, group=group)
    assert (made == (1 if rank() == 0 else total() - 1)).all()


def test_a_monitored_barrier_names_the_rank_that_is_late():
    group = dist.new_group(list(range(size())))
    group.monitored_barrier()
    if rank() != 1:
        with pytest.raises(RuntimeError, match="monitored_barrier: rank 1 of the group has not called it"):
            group.monitored_barrier(timedelta(seconds=0.5) if rank() == 0 else timedelta(seconds=300))
    dist.barrier()


def test_rank_0_may_come_late_to_a_monitored_barrier():
    group = dist.new_group(list(range(size())))
    if rank() == 0:
        time.sleep(1.5)  # torch's FileStore counts whole seconds
    group.monitored_barrier(timedelta(seconds=300) if rank() == 0 else timedelta(seconds=0.1))
    if rank() != 0:
        group._limit = timedelta(seconds=0.5)
        with pytest.raises(RuntimeError, match="rank 0 of the group has not called it within 0:00:00.5"):
            group.monitored_barrier(timedelta(seconds=0.1))
    dist.barrier()


def test_a_monitored_barrier_without_time_does_not_wait():
    group = dist.new_group(list(range(size())), timeout=timedelta(seconds=2))
    if rank() == 0:
        with pytest.raises(RuntimeError, match="has not called it within 0:00:00$"):
            group.monitored_barrier(timedelta(0))
    dist.barrier()


def test_tensors_of_different_sizes_are_gathered():
    parts = [torch.zeros(each + 1) for each in range(size())]
    dist.all_gather(parts, mine(rank() + 1))
    assert [each.tolist() for each in parts] == [[each + 1.0] * (each + 1) for each in range(size())]


@since(hasattr(torch, "float8_e4m3fn"))
def test_float8_is_sent_and_not_reduced():
    small = mine().to(torch.float8_e4m3fn)
    parts = [torch.zeros(4).to(small.dtype) for _ in range(size())]
    dist.all_gather(parts, small)
    assert [each.float()[0].item() for each in parts] == EVERYONE[:size()]
    dist.broadcast(small, 1)
    assert (small.float() == 2).all()
    with pytest.raises(TypeError, match="float8 can be sent, but not reduced"):
        dist.all_reduce(small)
