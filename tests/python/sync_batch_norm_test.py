"""SyncBatchNorm: the ranks together compute what one process computes with the whole batch."""
import copy
import pickle

import pytest
import torch

import anello.torch as hvd

# The error of rounding to the type of the result, for elements near 3 and running means or variances near 30.
ROUNDING = {torch.float16: 2e-3, torch.bfloat16: 2e-2, torch.float32: 2e-5, torch.float64: 1e-10}


@pytest.fixture(autouse=True)
def initialised(horovod):
    horovod.init()
    torch.manual_seed(0)


def layers(features=3, dtype=torch.float32, **options):
    """The layer over all ranks, and a layer of one process in float64."""
    made = hvd.SyncBatchNorm(features, **options).to(dtype)
    alone = torch.nn.BatchNorm1d(features, **options).double()
    if made.affine:
        with torch.no_grad():
            made.weight.uniform_(0.5, 2)
            made.bias.uniform_(-1, 1)
    alone.load_state_dict(copy.deepcopy(made.state_dict()))
    return made, alone


def share(rows):
    """This rank's rows. Ranks have different numbers of rows."""
    ends = [rows * r * (r + 1) // (hvd.size() * (hvd.size() + 1)) for r in range(hvd.size() + 1)]
    return slice(ends[hvd.rank()], ends[hvd.rank() + 1])


def flat(batch):
    """Flattens a batch with any number of dimensions to one that BatchNorm1d accepts."""
    return batch.flatten(2) if batch.dim() > 2 else batch


def near(made, expected, dtype):
    assert torch.isfinite(made).all()
    assert (made.double() - expected).abs().max() <= ROUNDING[dtype] * max(1, expected.abs().max())


def compare(whole, layer_dtype, mine=None, **options):
    """Compares the forward and backward pass of the ranks with the passes of one process, in float64."""
    mine = share(len(whole)) if mine is None else mine
    ours, alone = layers(whole.shape[1], layer_dtype, **options)
    given = whole[mine].clone().requires_grad_()
    wide = whole.double().requires_grad_()
    weights = torch.randn_like(whole, dtype=torch.float64)
    out = ours(given)
    expected = alone(flat(wide)).view_as(whole)
    assert out.dtype == whole.dtype and out.shape == given.shape
    near(out, expected[mine], whole.dtype) if len(given) else None
    (out.double() * weights[mine]).sum().backward()
    (expected * weights).sum().backward()
    assert given.grad.dtype == whole.dtype
    near(given.grad, wide.grad[mine], whole.dtype) if len(given) else None
    if ours.affine:
        total = hvd.allreduce(ours.weight.grad.double(), op=hvd.Sum)
        values = whole.numel() / whole.shape[1]  # each value is rounded separately
        assert (total - alone.weight.grad).abs().max() <= 4 * values**0.5 * max(ROUNDING[whole.dtype],
                                                                                ROUNDING[layer_dtype])
    if ours.track_running_stats:
        for name in ("running_mean", "running_var"):
            computed = torch.float32 if layer_dtype == torch.float64 and whole.dtype != layer_dtype else layer_dtype
            near(getattr(ours, name), getattr(alone, name), computed)
        assert ours.num_batches_tracked == alone.num_batches_tracked
    return ours, out


def batch(samples, dtype, mean=30.0):
    return (torch.randn(samples, 3, 37, 37, dtype=torch.float64) + mean).to(dtype)


@pytest.mark.parametrize("dtype, layer_dtype", [
    (torch.float16, torch.float16), (torch.bfloat16, torch.bfloat16), (torch.float32, torch.float32),
    (torch.float64, torch.float64), (torch.float16, torch.float32), (torch.bfloat16, torch.float32),
    (torch.float32, torch.float64), (torch.float64, torch.float32)], ids=str)
@pytest.mark.parametrize("mean", [0.0, 30.0])
def test_more_than_65504_values_of_a_feature(dtype, layer_dtype, mean):
    compare(batch(80, dtype, mean), layer_dtype)  # 109,520 of them


def test_the_variance_of_values_far_from_zero():
    """In float32, the sum of squares minus the square of the sum would lose all digits of the variance."""
    whole = torch.randn(4096, 3) + 3000
    ours, alone = layers()
    out, expected = ours(whole[share(4096)]), alone(whole.double())[share(4096)]
    assert (out - expected).abs().max() < 1e-3
    assert torch.allclose(ours.running_var.double(), alone.running_var, rtol=1e-5)


@pytest.mark.parametrize("shape", [(12, 3), (12, 3, 5), (12, 3, 5, 4), (12, 3, 2, 5, 4)], ids=str)
@pytest.mark.parametrize("options", [{}, {"momentum": None}, {"affine": False}, {"track_running_stats": False},
                                     {"eps": 0.1, "momentum": 0.5}], ids=str)
def test_shapes_and_options(shape, options):
    compare(torch.randn(shape, dtype=torch.float64), torch.float64, **options)


def test_several_steps_keep_the_running_means_of_one_process():
    for momentum in (0.1, None):
        ours, alone = layers(dtype=torch.float64, momentum=momentum)
        for _ in range(3):
            whole = torch.randn(12, 3, 4, dtype=torch.float64) * 2 + 1
            ours(whole[share(12)])
            alone(whole)
        assert torch.allclose(ours.running_mean, alone.running_mean)
        assert torch.allclose(ours.running_var, alone.running_var)
        whole = torch.randn(12, 3, 4, dtype=torch.float64)
        assert torch.allclose(ours.eval()(whole), alone.eval()(whole))
        states = hvd.allgather_object([each.tolist() for each in ours.state_dict().values()])
        assert states == states[:1] * hvd.size(), "the same bits on all ranks"


def test_a_rank_with_an_empty_batch_takes_part():
    whole = torch.randn(6, 3, 5)
    mine = slice(0, 6) if hvd.rank() == 1 else slice(0, 0)
    compare(whole, torch.float32, mine)


def test_batches_that_are_empty_on_all_ranks_change_nothing():
    ours, _ = layers()
    out = ours(torch.empty(0, 3, 5, requires_grad=True))
    out.sum().backward()
    assert out.shape == (0, 3, 5) and not ours.running_mean.any() and (ours.running_var == 1).all()


def test_one_value_of_all_ranks_is_refused_on_all():
    with pytest.raises(ValueError, match="more than 1 value of each feature is needed .* of all ranks have 1"):
        hvd.SyncBatchNorm(3)(torch.ones(1 if hvd.rank() == 0 else 0, 3))


@pytest.mark.parametrize("given, why", [
    (torch.ones(3), "at least 2 are needed"), (torch.ones(2, 4), "the input has 4 features, but the layer has 3"),
    (torch.ones(2, 3, dtype=torch.int64), "must be of floating-point numbers, not torch.int64")], ids=str)
def test_wrong_inputs_are_refused_before_anything_is_sent(given, why):
    with pytest.raises(ValueError, match=why):
        hvd.SyncBatchNorm(3)(given)


def test_a_rank_that_has_joined_does_not_count():
    whole = torch.randn(4 * (hvd.size() - 1), 3)
    if hvd.rank() > 0:
        ours, alone = layers()
        mine = slice(4 * (hvd.rank() - 1), 4 * hvd.rank())
        near(ours(whole[mine]), alone(whole.double())[mine], torch.float32)
    hvd.join()


def test_the_memory_format_stays():
    given = torch.randn(4, 3, 5, 6).to(memory_format=torch.channels_last)
    out = hvd.SyncBatchNorm(3)(given)
    assert out.is_contiguous(memory_format=torch.channels_last)
    assert torch.allclose(out, hvd.SyncBatchNorm(3)(given.contiguous()), atol=1e-6)


def test_a_convolution_of_16_bits_follows():
    given = torch.randn(4, 3, 5, 5, dtype=torch.bfloat16)
    torch.nn.Conv2d(3, 2, 3, dtype=torch.bfloat16)(hvd.SyncBatchNorm(3)(given)).sum().backward()


def test_second_derivatives_are_those_of_one_process():
    whole = torch.randn(6, 3, dtype=torch.float64)
    mine = share(6)

    def penalty(layer, given):
        given = given.clone().requires_grad_()
        loss = layer(given).pow(3).sum()
        gradient, = torch.autograd.grad(loss, given, create_graph=True)
        gradient.pow(2).sum().backward()
        return given.grad

    ours, alone = layers(dtype=torch.float64)
    assert torch.allclose(penalty(ours, whole[mine]), penalty(alone, whole)[mine])


def test_a_layer_can_be_copied_and_saved():
    """Programs copy layers, for example to keep an average of a model over time."""
    some = hvd.add_process_set([0])
    for process_set in (hvd.global_process_set, some):
        layer = hvd.SyncBatchNorm(3, process_set=process_set)
        assert copy.deepcopy(layer).process_set is process_set
        loaded = pickle.loads(pickle.dumps(layer))
        assert (loaded.weight == layer.weight).all() and loaded.process_set.ranks == process_set.ranks
    assert pickle.loads(pickle.dumps(hvd.SyncBatchNorm(3))).process_set is hvd.global_process_set
    assert hvd.remove_process_set(some)
