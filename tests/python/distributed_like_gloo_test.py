"""Calls of torch.distributed return the same over the backend "anello" as over Gloo."""
import contextlib
import importlib

import pytest
import torch
import torch.distributed as dist

import anello.torch.distributed  # noqa: F401, registers the backend

nn = torch.nn
pytestmark = pytest.mark.usefixtures("process_group")


@pytest.fixture(scope="module")
def gloo(process_group):
    yield dist.new_group(backend="gloo")


def rank():
    return dist.get_rank()


def size():
    return dist.get_world_size()


def mine(count=4, dtype=torch.float32):
    return (torch.arange(count) + 10 * rank() + 1).to(dtype)


def for_each(count=4):
    return [torch.zeros(count) for _ in range(size())]


def on(receiver, made):
    """Returns `made` on the receiver, and None on other ranks."""
    return made if rank() == receiver else None


def filled(made, call):
    """The tensors that a call has written."""
    call(made)
    return made


def waited(work):
    work.wait()
    return work.is_completed()


def rows():
    return list(mine(2 * size()).view(size(), 2).unbind())


def to_the_next(group, send, receive):
    got, following, before = torch.zeros(4), (rank() + 1) % size(), (rank() - 1) % size()
    sent = send(mine(), following, group=group)
    receive(got, before, group=group)
    sent.wait()
    return got


def batch(group):
    got = torch.zeros(4)
    transfers = [dist.P2POp(dist.isend, mine(), (rank() + 1) % size(), group),
                 dist.P2POp(dist.irecv, got, (rank() - 1) % size(), group)]
    return [waited(work) for work in dist.batch_isend_irecv(transfers)], got


def objects_to_1(group):
    if rank() == 0:
        return dist.send_object_list([1, "b"], 1, group=group)
    return on(1, filled([None, None], lambda out: dist.recv_object_list(out, 0, group=group)) if rank() == 1 else None)


def coalesced(group):
    parts, whole = [mine(), mine(2)], torch.zeros(4 * size())
    with dist._coalescing_manager(group):
        for each in parts:
            dist.all_reduce(each, group=group)
    with dist._coalescing_manager(group, async_ops=True) as gathering:
        dist.all_gather_into_tensor(whole, mine(), group=group)
    gathering.wait()
    return parts, whole


def with_gradient(call):
    """Returns the result of a call of torch.distributed.nn, and the gradient of the call's input."""
    def both(group):
        import torch.distributed.nn.functional as functional
        given = mine(2 * size()).requires_grad_()
        made = call(functional, given, group)
        (made * torch.arange(1.0, 1 + made.numel())).sum().backward()
        return made.detach(), given.grad
    return both


def trained(wrap, parameters=lambda model: model.parameters(), optimizer=torch.optim.SGD):
    torch.manual_seed(0)
    model = wrap(nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 2)).double())
    stepped = optimizer(model.parameters(), lr=0.1)
    for step in range(3):
        stepped.zero_grad()
        model(torch.arange(12.0).view(3, 4).double().sin() * (rank() + step + 1)).pow(2).mean().backward()
        stepped.step()
    return list(parameters(model))


def data_parallel(hook=None, **options):
    def wrap(group):
        def made(model):
            together = nn.parallel.DistributedDataParallel(model, process_group=group, **options)
            if hook:
                together.register_comm_hook(group, hook)
            return together
        return trained(made)
    return wrap


def sharded_optimizer(group):
    from torch.distributed.optim import ZeroRedundancyOptimizer
    return trained(lambda model: nn.parallel.DistributedDataParallel(model, process_group=group), optimizer=lambda
                   parameters, lr: ZeroRedundancyOptimizer(parameters, torch.optim.Adam, group, lr=lr))


def averaged(group):
    from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
    parameter = nn.Parameter(mine())
    parameter.grad = mine()
    PeriodicModelAverager(period=1, process_group=group).average_parameters([parameter])
    return parameter


def fp16(state, bucket):
    from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook
    return fp16_compress_hook(state, bucket)


OPS = {name: getattr(dist.ReduceOp, name) for name in ("SUM", "PRODUCT", "MIN", "MAX")}
BITS = {name: getattr(dist.ReduceOp, name) for name in ("BAND", "BOR", "BXOR")}
TYPES = (torch.float16, torch.bfloat16, torch.float64, torch.int8, torch.uint8, torch.int32, torch.int64,
         torch.complex64)
CALLS = {
    **{f"all_reduce {name}": lambda group, op=op: filled(mine(), lambda made: dist.all_reduce(made, op, group))
       for name, op in OPS.items()},
    **{f"all_reduce {name}": lambda group, op=op: filled(mine(4, torch.int64),
                                                         lambda made: dist.all_reduce(made, op, group))
       for name, op in BITS.items()},
    **{f"all_reduce {of}": lambda group, of=of: filled(mine(4, of), lambda made: dist.all_reduce(made, group=group))
       for of in TYPES},
    "all_reduce async_op": lambda group: waited(dist.all_reduce(mine(), group=group, async_op=True)),
    "get_future": lambda group: dist.all_reduce(mine(), group=group, async_op=True).get_future().wait(),
    "all_reduce of nothing": lambda group: filled(torch.zeros(0), lambda made: dist.all_reduce(made, group=group)),
    "all_reduce of a number": lambda group: filled(mine(1)[0], lambda made: dist.all_reduce(made, group=group)),
    "all_reduce, sparse": lambda group: filled(torch.eye(3).mul(rank() + 1).to_sparse(),
                                               lambda made: dist.all_reduce(made, group=group)).to_dense(),
    "all_reduce_coalesced": lambda group: filled([mine(), mine(2)],
                                                 lambda made: dist.all_reduce_coalesced(made, group=group)),
    "broadcast": lambda group: filled(mine(), lambda made: dist.broadcast(made, 1, group)),
    "broadcast, with strides": lambda group: filled(torch.zeros(3, 4).t().fill_(rank()),
                                                    lambda made: dist.broadcast(made, 1, group)),
    "reduce": lambda group: on(1, filled(mine(), lambda made: dist.reduce(made, 1, group=group))),
    "all_gather": lambda group: filled(for_each(), lambda made: dist.all_gather(made, mine(), group)),
    "all_gather_into_tensor": lambda group: filled(torch.zeros(4 * size()), lambda made: dist.all_gather_into_tensor(
        made, mine(), group)),
    "all_gather_coalesced": lambda group: filled(
        [[torch.zeros(4), torch.zeros(2)] for _ in range(size())],
        lambda made: dist.all_gather_coalesced(made, [mine(), mine(2)], group)),
    "gather": lambda group: filled(on(1, for_each()), lambda made: dist.gather(mine(), made, 1, group)),
    "scatter": lambda group: filled(torch.zeros(2), lambda made: dist.scatter(made, on(1, rows()), 1, group)),
    "reduce_scatter": lambda group: filled(torch.zeros(2), lambda made: dist.reduce_scatter(made, rows(), group=group)),
    "reduce_scatter_tensor": lambda group: filled(torch.zeros(2), lambda made: dist.reduce_scatter_tensor(
        made, mine(2 * size()), group=group)),
    "all_to_all": lambda group: filled(for_each(2), lambda made: dist.all_to_all(made, rows(), group)),
    "all_to_all_single": lambda group: filled(torch.zeros(2 * size()), lambda made: dist.all_to_all_single(
        made, mine(2 * size()), group=group)),
    "all_to_all_single with splits": lambda group: filled(torch.zeros(size() * (rank() + 1)), lambda made: (
        dist.all_to_all_single(made, mine(sum(range(size() + 1))), size() * [rank() + 1], list(range(1, size() + 1)),
                               group))),
    "isend, recv": lambda group: to_the_next(group, dist.isend, dist.recv),
    "isend, irecv": lambda group: to_the_next(group, dist.isend, lambda *a, **b: dist.irecv(*a, **b).wait()),
    "batch_isend_irecv": batch,
    "all_gather_object": lambda group: filled([None] * size(),
                                              lambda made: dist.all_gather_object(made, {"rank": rank()}, group)),
    "gather_object": lambda group: filled(on(0, [None] * size()),
                                          lambda made: dist.gather_object(("a", rank()), made, 0, group)),
    "broadcast_object_list": lambda group: filled([rank(), "x" * rank()],
                                                  lambda made: dist.broadcast_object_list(made, 1, group)),
    "scatter_object_list": lambda group: filled([None], lambda made: dist.scatter_object_list(
        made, on(0, [f"to {each}" for each in range(size())]), 0, group)),
    "send_object_list": objects_to_1,
    "barrier": lambda group: dist.barrier(group),
    "barrier async_op": lambda group: waited(dist.barrier(group, async_op=True)),
    "monitored_barrier": lambda group: group.monitored_barrier(),
    "the group": lambda group: (group.rank(), group.size(), dist.get_rank(group), dist.get_world_size(group)),
    "_coalescing_manager": coalesced,
    "nn.all_reduce": with_gradient(lambda verbs, given, group: verbs.all_reduce(given, group=group)),
    "nn.all_gather": with_gradient(lambda verbs, given, group: torch.cat(verbs.all_gather(given, group))),
    "nn.broadcast": with_gradient(lambda verbs, given, group: verbs.broadcast(given * 1, 1, group)),
    "nn.all_to_all_single": with_gradient(lambda verbs, given, group: verbs.all_to_all_single(
        torch.zeros(2 * size()), given, group=group)),
    "DistributedDataParallel": data_parallel(),
    "DistributedDataParallel of views": data_parallel(gradient_as_bucket_view=True, static_graph=True),
    "fp16_compress_hook": data_parallel(fp16),
    "ZeroRedundancyOptimizer": sharded_optimizer,
    "PeriodicModelAverager": averaged,
}


class Modern:
    """Calls that torch has added since 1.13.

    If torch lacks one of them, the test is skipped, because it would fail over Gloo too.
    """

    def __getattr__(self, name):
        for each in ("_functional_collectives", "device_mesh", "tensor", "_tensor", "fsdp", "_composable.fsdp"):
            with contextlib.suppress(ImportError, ValueError):  # Python 3.11 cannot load some modules of torch 1.13
                module = importlib.import_module(f"torch.distributed.{each}")
                if hasattr(module, name):
                    return getattr(module, name)
        raise AttributeError(f"torch {torch.__version__} has no {name}")


modern = Modern()


def mesh(group):
    """Makes a mesh with its own name, because torch takes meshes with the same name for equal.

    torch would use the first mesh's group for all meshes of one name, even after the first mesh is gone.
    """
    return modern.DeviceMesh.from_group(group, "cpu", mesh=list(range(size())),
                                        mesh_dim_names=(dist.get_backend(group),))


def whole():
    return torch.arange(4.0 * size()).view(2, -1)


def fully_sharded(group):
    return trained(lambda model: modern.fully_shard(model, mesh=mesh(group)),
                   lambda model: [each.full_tensor() for each in model.parameters()])


CALLS.update({
    "fully_shard": fully_sharded,
    "functional.all_reduce": lambda group: modern.all_reduce(mine(), "sum", group) * 1,
    "functional.all_gather_tensor": lambda group: modern.all_gather_tensor(mine(), 0, group) * 1,
    "functional.reduce_scatter_tensor": lambda group: modern.reduce_scatter_tensor(
        mine(2 * size()), "sum", 0, group) * 1,
    "functional.all_to_all_single": lambda group: modern.all_to_all_single(mine(2 * size()), None, None, group) * 1,
    "functional.broadcast": lambda group: modern.broadcast(mine(), 1, group) * 1,
    "functional.all_reduce_coalesced": lambda group: [
        each * 1 for each in modern.all_reduce_coalesced([mine(), mine(2)], "sum", group)],
    "distribute_tensor": lambda group: modern.distribute_tensor(
        whole(), mesh(group), [modern.Shard(1)]).full_tensor(),
    "redistribute": lambda group: modern.distribute_tensor(whole().t(), mesh(group), [modern.Shard(0)]).redistribute(
        mesh(group), [modern.Replicate()]).to_local(),
    "Partial": lambda group: modern.DTensor.from_local(whole() + rank(), mesh(group), [modern.Partial()]).full_tensor(),
    "matrices": lambda group: (modern.distribute_tensor(whole(), mesh(group), [modern.Shard(1)])
                               @ modern.distribute_tensor(whole().t(), mesh(group), [modern.Shard(0)])).full_tensor(),
})


def readable(value):
    if torch.is_tensor(value):
        return str(value.dtype), value.tolist()
    return [readable(each) for each in value] if isinstance(value, (list, tuple)) else value


def close(value, other, error):
    """True if both are equal. Numbers may differ as much as sums in another order."""
    if isinstance(value, (list, tuple)):
        return len(value) == len(other) and all(close(one, its, error) for one, its in zip(value, other))
    return value == (pytest.approx(other, rel=error, abs=error) if isinstance(value, (float, complex)) else other)


@pytest.mark.parametrize("name", CALLS)
def test_it_gives_what_gloo_gives(name, gloo):
    try:
        expected = readable(CALLS[name](gloo))
    except (AttributeError, RuntimeError) as error:  # the same on all ranks, and before anything is sent
        pytest.skip(f"not with Gloo, or this torch: {error}")
    assert close(readable(CALLS[name](dist.group.WORLD)), expected, 1e-3 if "fp16" in name else 1e-7)
