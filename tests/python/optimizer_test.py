"""DistributedOptimizer: all ranks together take the step that one process would take with the samples of all ranks."""
import pytest
import torch

import anello.torch as hvd


@pytest.fixture(autouse=True)
def initialised(horovod):
    horovod.init()


def model_and_data(samples=4):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.Tanh(), torch.nn.Linear(5, 3)).double()
    return model, torch.randn(samples * hvd.size(), 6, dtype=torch.float64)


def trained_alone(passes=1, make=None, steps=4):
    model, data = model_and_data()
    optimizer = (make or (lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9)))(model.parameters())
    for _ in range(steps):
        optimizer.zero_grad()
        for _ in range(passes):
            model(data).pow(2).mean().backward()
        optimizer.step()
    return list(model.parameters())


def trained_together(passes=1, make=None, steps=4, set_to_none=False, **options):
    model, data = model_and_data()
    optimizer = (make or (lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9)))(model.parameters())
    optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters(), backward_passes_per_step=passes,
                                         **options)
    mine = data[4 * hvd.rank():4 * (hvd.rank() + 1)]
    for _ in range(steps):
        if set_to_none:
            model.zero_grad(set_to_none=True)
        optimizer.zero_grad()
        for _ in range(passes):
            model(mine).pow(2).mean().backward()
        optimizer.step()
    return list(model.parameters()), optimizer


def same(ours, theirs, tolerance=1e-12):
    return all(torch.allclose(a, b, rtol=0, atol=tolerance) for a, b in zip(ours, theirs))


@pytest.mark.parametrize("options", [
    {}, {"passes": 3}, {"set_to_none": True}, {"groups": 2}, {"num_groups": 1}, {"gradient_predivide_factor": 2.0},
    {"make": lambda p: torch.optim.Adam(p, lr=0.01)}], ids=str)
def test_it_trains_as_one(options):
    alone = trained_alone(**{key: value for key, value in options.items() if key in ("passes", "make")})
    assert same(trained_together(**options)[0], alone)


@pytest.mark.parametrize("make", [
    lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    lambda p: torch.optim.LBFGS(p, lr=0.5, max_iter=8, line_search_fn="strong_wolfe")], ids=["sgd", "lbfgs"])
@pytest.mark.parametrize("clips", [False, True])
def test_a_closure_sees_the_gradients_and_the_loss_of_all_ranks(make, clips):
    def train(optimizer, model, data, synchronize=lambda: None):
        losses = []

        def closure():
            optimizer.zero_grad()
            loss = model(data).pow(2).mean()
            loss.backward()
            if clips:
                synchronize()
                torch.nn.utils.clip_grad_norm_(model.parameters(), 0.05)
            return loss

        for _ in range(4):
            losses.append(optimizer.step(closure))
        return losses

    alone, data = model_and_data()
    expected = train(make(alone.parameters()), alone, data)
    model, data = model_and_data()
    optimizer = hvd.DistributedOptimizer(make(model.parameters()), model.named_parameters())
    losses = train(optimizer, model, data[4 * hvd.rank():4 * (hvd.rank() + 1)], optimizer.synchronize)
    assert same(model.parameters(), alone.parameters(), 1e-9) and same(losses, expected, 1e-9)


def test_16_bits_are_enough_to_come_near():
    for compression in (hvd.Compression.fp16, hvd.Compression.bf16):
        assert same(trained_together(compression=compression)[0], trained_alone(), 0.02)


@pytest.mark.parametrize("options", [{}, {"groups": 1}, {"op": hvd.Sum}, {"gradient_predivide_factor": 4.0}], ids=str)
def test_error_feedback_keeps_what_16_bits_lose(options):
    tiny, steps = 2.0**-27, 64  # half precision rounds it to zero
    moved = {}
    for feedback in (False, True):
        parameters = [torch.nn.Parameter(torch.zeros(3, 2)), torch.nn.Parameter(torch.zeros(5))]
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD(parameters, lr=1.0), compression=hvd.Compression.fp16,
                                             error_feedback=feedback, **options)
        for _ in range(steps):
            optimizer.zero_grad()
            sum(each.sum() * tiny for each in parameters).backward()
            optimizer.step()
        moved[feedback] = parameters
    assert all((each == 0).all() for each in moved[False])
    lost = [hvd.allreduce(each, op=hvd.Sum) for each in optimizer.residuals().values()]
    expected = steps * tiny * (hvd.size() if options.get("op") == hvd.Sum else 1)
    assert any(each[0].any() for each in moved[True])
    assert same([a - b for a, b in zip(lost, moved[True])], [torch.full_like(each, expected) for each in lost], 1e-12)


def test_error_feedback_is_refused_where_nothing_is_rounded():
    model = torch.nn.Linear(2, 1)
    sgd = torch.optim.SGD(model.parameters(), lr=0.1)
    for options in (dict(), dict(compression=hvd.Compression.fp16, op=hvd.Max)):
        with pytest.raises(ValueError, match="Compression.fp16 or .bf16"):
            hvd.DistributedOptimizer(sgd, error_feedback=True, **options)
    with pytest.raises(ValueError, match="float32, but a parameter is of torch.float64"):
        hvd.DistributedOptimizer(torch.optim.SGD(model.double().parameters(), lr=0.1), error_feedback=True,
                                 compression=hvd.Compression.bf16)
    assert hvd.DistributedOptimizer(sgd).residuals() == {}


def test_a_compressor_of_the_programs_own_is_used():
    used = []

    class Half:
        @staticmethod
        def compress(tensor):
            used.append(tensor)
            return tensor.half(), tensor.dtype

        @staticmethod
        def decompress(tensor, ctx):
            return tensor.to(ctx)

    for compressor in (Half, Half()):
        used.clear()
        assert same(trained_together(compression=compressor)[0], trained_alone(), 0.02) and used
    with pytest.raises(ValueError, match="compression must be .* but is 'fp16'"):
        trained_together(compression="fp16")


class InPlace:
    """A compressor that returns the given tensor itself. Compressors may do so."""

    @staticmethod
    def compress(tensor):
        return tensor.mul_(2), 0.5

    @staticmethod
    def decompress(tensor, ctx):
        return tensor.mul_(ctx)


class Identity(InPlace):
    @staticmethod
    def compress(tensor):
        return tensor, 1.0


class Halving(Identity):
    @staticmethod
    def decompress(tensor, ctx):
        return tensor * 0.5


@pytest.mark.parametrize("compressor, factor", [(InPlace, 1.0), (Identity, 1.0), (Halving, 0.5)])
@pytest.mark.parametrize("groups", [None, 1])
def test_a_compressor_is_always_asked_to_decompress(compressor, factor, groups):
    weight = torch.nn.Parameter(torch.zeros(3))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([weight], lr=1.0), compression=compressor, groups=groups)
    for _ in range(3):
        optimizer.zero_grad()
        (weight * (hvd.rank() + 1)).sum().backward()
        optimizer.step()
    mean = (hvd.size() + 1) / 2
    assert weight.tolist() == [-3 * factor * mean] * 3


def test_gradients_are_views_of_one_flat_tensor_from_the_second_step_on():
    parameters, _ = trained_together()
    bases = {each.grad._base.data_ptr() for each in parameters}
    assert len(bases) == 1


def test_it_is_still_of_its_class_and_keeps_its_state():
    _, optimizer = trained_together()
    assert isinstance(optimizer, torch.optim.SGD) and len(optimizer.state) == 4


def test_programs_for_horovod_find_the_names_of_parameters():
    layer = torch.nn.Linear(2, 2)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(layer.parameters(), lr=0.1))
    assert list(optimizer._parameter_names.values()) == ["parameter 0 of group 0", "parameter 1 of group 0"]


def test_a_rank_without_a_gradient_counts_as_zero():
    for _ in range(2):
        torch.manual_seed(0)
        used, other = torch.nn.Linear(2, 1), torch.nn.Linear(2, 1)
        named = [(f"used.{n}", p) for n, p in used.named_parameters()]
        named += [(f"other.{n}", p) for n, p in other.named_parameters()]
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD([p for _, p in named], lr=1.0), named)
        for _ in range(3):
            optimizer.zero_grad()
            (used if hvd.rank() == 0 else other)(torch.ones(1, 2)).sum().backward()
            optimizer.step()
            assert used.bias.grad.item() == pytest.approx(1 / hvd.size())
        assert len(set(hvd.allgather_object(other.bias.item()))) == 1


def test_sparse_gradients_stay_sparse():
    for as_dense in (False, True):
        torch.manual_seed(0)
        table = torch.nn.Embedding(10, 2, sparse=True)
        optimizer = torch.optim.SparseAdam(list(table.parameters()), lr=0.1)
        optimizer = hvd.DistributedOptimizer(optimizer, sparse_as_dense=as_dense)
        for _ in range(3):
            optimizer.zero_grad()
            table(torch.tensor([hvd.rank(), 9])).sum().backward()
            optimizer.step()
        assert len(set(hvd.allgather_object(table.weight.detach().sum().item()))) == 1
        assert table.weight.grad.is_sparse
        dense = table.weight.grad.to_dense()
        assert dense[9, 0] == pytest.approx(1) and dense[hvd.rank(), 0] == pytest.approx(1 / hvd.size())


def test_sparse_gradients_are_summed_or_averaged_only():
    table = torch.nn.Embedding(10, 2, sparse=True)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(table.parameters(), lr=0.1), op=hvd.Min)
    with pytest.raises(NotImplementedError, match="hvd.Min is not available for a sparse tensor: use"):
        table(torch.tensor([hvd.rank()])).sum().backward()
        optimizer.step()


def test_clipping_between_synchronize_and_step():
    model, data = model_and_data()
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
    model(data).sum().backward()
    optimizer.synchronize()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.01)
    with optimizer.skip_synchronize():
        optimizer.step()
    assert torch.stack([p.grad.norm() for p in model.parameters()]).norm() < 0.011
    optimizer.synchronize()
    with pytest.warns(UserWarning, match="without optimizer.skip_synchronize"):
        optimizer.step()


def forget(model):
    model.zero_grad(set_to_none=True)


def clip(model):
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.01)


@pytest.mark.parametrize("change", [clip, forget])
def test_gradients_on_their_way_must_not_change(change):
    model, data = model_and_data()
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
    model(data).sum().backward()
    optimizer.step()
    for _ in range(2):  # in buckets, since the second step
        model(data).sum().backward()
        change(model)
        with pytest.raises(RuntimeError, match="gradients .* were changed .* call optimizer.synchronize"):
            optimizer.step()
        model(data).sum().backward()
        optimizer.step()


def test_gradients_may_be_parts_of_one_tensor():
    first, second = (torch.nn.Parameter(torch.ones(2, 2)) for _ in range(2))
    named = [("first", first), ("second", second)]
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([first, second], lr=0.1), named, backward_passes_per_step=2)
    for _ in range(3):
        for _ in range(2):
            torch.nn.functional.linear(torch.ones(1, 2), torch.cat([first, second])).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    assert torch.allclose(first, torch.full((2, 2), 0.4))


def test_it_steps_in_inference_mode():
    model, _ = model_and_data()
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
    before = [each.detach().clone() for each in model.parameters()]
    with torch.inference_mode():
        for _ in range(3):
            for each in model.parameters():
                each.grad = torch.ones_like(each)
            optimizer.step()
    assert same([each + 0.3 for each in model.parameters()], before)


def test_what_would_go_wrong_silently_is_refused():
    model, data = model_and_data()
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
    model(data).sum().backward()
    optimizer.step()
    model(data).sum().backward()
    with pytest.raises(AssertionError, match="on their way"):
        optimizer.zero_grad()
    model(data).sum().backward()
    with pytest.raises(AssertionError, match="2.bias was computed more often"):
        optimizer.zero_grad()
    with pytest.raises(AssertionError, match="2.bias was computed more often"), optimizer.skip_synchronize():
        optimizer.step()
    with pytest.raises(AssertionError, match="2.bias was computed more often"):
        optimizer.step()
    optimizer.zero_grad()
    model(data).sum().backward()
    optimizer.step()
    for wrong in ([("a", p) for p in model.parameters()], list(model.named_parameters())[:1], ["a"]):
        with pytest.raises(ValueError, match="named_parameters"):
            hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), wrong)
    for options in (dict(backward_passes_per_step=0), dict(gradient_predivide_factor=2.0, op=hvd.Sum), dict(groups=-1)):
        with pytest.raises(ValueError):
            hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), **options)


def test_what_fails_leaves_nothing_under_way():
    class Fails:
        @staticmethod
        def compress(tensor):
            if len(tensor) == 2:
                raise ArithmeticError("two elements")
            return tensor.clone(), None

        @staticmethod
        def decompress(tensor, ctx):
            return tensor

    first, second = (torch.nn.Parameter(torch.ones(count)) for count in (2, 3))
    named = [("first", first), ("second", second)]
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([first, second], lr=0.1), named, compression=Fails)
    for passes in (1, 2, 1):
        optimizer.zero_grad()
        for _ in range(passes):
            (first.sum() * (hvd.rank() + 1) + second.sum() * (hvd.rank() + 1)).backward()
        with pytest.raises(ArithmeticError, match="two elements"):
            optimizer.step()
        assert passes > 1 or second.grad.tolist() == [(hvd.size() + 1) / 2] * 3


def test_schedules_work_on_it():
    model, _ = model_and_data()
    plain = torch.optim.SGD(model.parameters(), lr=1.0)
    before = torch.optim.lr_scheduler.StepLR(plain, 1, 0.5)
    optimizer = hvd.DistributedOptimizer(plain, model.named_parameters())
    optimizer.step()
    before.step()
    assert optimizer.param_groups[0]["lr"] == 0.5


def test_the_state_of_rank_0_reaches_ranks_that_have_none():
    model, data = model_and_data()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1 + hvd.rank())
    if hvd.rank() == 0:
        model(data).sum().backward()
        optimizer.step()
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    assert optimizer.param_groups[0]["lr"] == 0.1
    sums = [state["exp_avg"].sum().item() for state in optimizer.state.values()]
    assert len(sums) == 4 and hvd.allgather_object(sums) == [sums] * hvd.size()


def test_parallelize_is_one_call(tmp_path):
    model, _ = model_and_data()
    job = hvd.parallelize(model, torch.optim.SGD(model.parameters(), lr=0.1))
    assert (job.rank, job.size) == (hvd.rank(), hvd.size())
    assert job.optimizer.param_groups[0]["lr"] == pytest.approx(0.1 * hvd.size())
    folder = hvd.broadcast_object(str(tmp_path))
    job.save(f"{folder}/checkpoint.pt", epoch=3)
    assert torch.load(f"{folder}/checkpoint.pt")["epoch"] == 3
    hvd.barrier()


def test_a_step_without_a_world_is_forgotten_when_there_is_one_again():
    parameter = torch.nn.Parameter(torch.ones(2))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([parameter], lr=1))
    for _ in range(2):
        optimizer.zero_grad()
        (parameter * hvd.rank()).sum().backward()
        optimizer.step()
    hvd.shutdown()
    optimizer.zero_grad()
    parameter.sum().backward()
    with pytest.raises(ValueError, match="not been initialized"):
        optimizer.step()
    hvd.init()
    optimizer.zero_grad()
    (parameter * hvd.rank()).sum().backward()
    optimizer.step()
    assert parameter.tolist() == [1 - 3 * (hvd.size() - 1) / 2] * 2
