"""parallelize(): after this one call, all ranks train like one process with the batches of all ranks."""
import numpy
import pytest
import tensorflow as tf

import anello.tensorflow.keras as hvd
from anello.tensorflow import gpus
from keras_models import (BATCH, IS_KERAS_3, are_close, are_equal_on_all_ranks, batches, everyone, fit, mine, model,
                          sgd, variables)

pytestmark = pytest.mark.usefixtures("horovod_for_tensorflow")


def compiled(seed=0, optimizer=None, **options):
    made = model(seed)
    made.compile(optimizer=optimizer or sgd(), loss="mse", **options)
    return made


def train(job, callbacks=()):
    """Returns the metrics of each epoch."""
    return job.model.fit(*batches(mine()), batch_size=BATCH, shuffle=False, verbose=0, callbacks=callbacks).history


@pytest.fixture(scope="module")
def alone(horovod_for_tensorflow):
    """The weights of one process that trains with the batches of all ranks, and with a rate that fits this larger
    batch."""
    return fit(sgd(0.1 * hvd.size()), everyone())


@pytest.mark.parametrize("give", [lambda made: made, lambda made: lambda: made], ids=["model", "function"])
def test_a_compiled_model_is_trained_by_all_ranks(alone, give):
    job = hvd.parallelize(give(compiled(seed=hvd.rank())))
    assert (job.rank, job.size, job.optimizer) == (hvd.rank(), hvd.size(), job.model.optimizer)
    train(job)
    assert are_close(job.model.get_weights(), alone) and are_equal_on_all_ranks(job.model.get_weights())


def test_a_rank_may_have_made_more_models(alone):
    for _ in range(hvd.rank()):
        model()
    job = hvd.parallelize(compiled())
    train(job)
    assert are_close(job.model.get_weights(), alone)


def test_an_optimizer_may_be_given_before_the_model_is_compiled(alone):
    job = hvd.parallelize(model(), sgd())
    job.model.compile(optimizer=job.optimizer, loss="mse")
    train(job)
    assert are_close(job.model.get_weights(), alone)


@pytest.mark.skipif(not IS_KERAS_3, reason="in a loop of the program Keras 2 averages in minimize()")
def test_a_loop_of_the_program_is_one_of_all_ranks(alone):
    job = hvd.parallelize(model(seed=hvd.rank()), sgd())

    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(job.model(x) - y))
        weights = job.model.trainable_variables
        job.optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights))

    for batch in tf.data.Dataset.from_tensor_slices(batches(mine())).batch(BATCH):
        step(*batch)
    assert are_close(job.model.get_weights(), alone) and are_equal_on_all_ranks(job.model.get_weights())


def test_all_ranks_begin_with_the_state_of_the_root():
    root = hvd.size() - 1
    optimizer, made = sgd(), model(seed=hvd.rank())
    if hvd.rank() == root:  # as if only this rank had read a file
        fit(optimizer, mine(), trained=made)
    expected = hvd.broadcast_object([made.get_weights(), variables(optimizer)], root)
    job = hvd.parallelize(made, optimizer, root_rank=root, scale_learning_rate=False)
    assert are_close(job.model.get_weights(), expected[0], 0) and are_close(variables(job.optimizer), expected[1], 0)


def test_a_model_that_this_rank_has_trained_is_trained_by_all_from_then_on():
    made = compiled(seed=hvd.rank())
    made.fit(*batches(mine()), verbose=0)
    train(hvd.parallelize(made))
    assert are_equal_on_all_ranks(made.get_weights())


def rate(**options):
    return float(tf.convert_to_tensor(hvd.parallelize(model(), sgd(0.25), **options).optimizer.learning_rate))


def test_the_learning_rate_is_scaled_if_wanted():
    assert rate() == 0.25 * hvd.size() and rate(scale_learning_rate=False) == 0.25


def test_a_schedule_is_not_scaled():
    def falling():
        return sgd(tf.keras.optimizers.schedules.ExponentialDecay(0.1, 10, 0.9))

    with pytest.raises(ValueError, match="the learning rate is a schedule.*scale_learning_rate=False"):
        hvd.parallelize(model(), falling())
    train(hvd.parallelize(compiled(optimizer=falling()), scale_learning_rate=False))


@pytest.mark.skipif(not IS_KERAS_3, reason="with Keras 2 the program scales the loss")
def test_a_model_in_mixed_precision_keeps_the_optimizer_that_scales_its_loss():
    made = model(dtype="mixed_float16")
    made.dtype_policy = tf.keras.mixed_precision.Policy("mixed_float16")
    made.compile(optimizer=sgd(0.25), loss="mse")
    job = hvd.parallelize(made)
    assert isinstance(job.optimizer, tf.keras.mixed_precision.LossScaleOptimizer)
    assert float(tf.convert_to_tensor(job.optimizer.learning_rate)) == 0.25 * hvd.size()
    train(job)
    assert are_equal_on_all_ranks(made.get_weights())


def test_options_are_those_of_the_optimizer(alone):
    job = hvd.parallelize(compiled(optimizer=sgd(0.1 / hvd.size())), op=hvd.Sum)
    train(job)
    assert are_close(job.model.get_weights(), alone, 1e-4)


def test_metrics_are_averages_and_the_last_model_is_written_on_rank_0(tmp_path):
    path = tmp_path / "model.keras"
    job = hvd.parallelize(compiled())
    loss, = train(job, job.callbacks(str(path)))["loss"]
    assert are_equal_on_all_ranks([numpy.array(loss)])
    assert path.exists() == (hvd.rank() == 0)
    if path.exists():
        assert are_close(tf.keras.models.load_model(path).get_weights(), job.model.get_weights(), 0)


def test_weights_alone_are_written_too(tmp_path):
    path = tmp_path / "model.weights.h5"
    job = hvd.parallelize(compiled())
    job.save(path)
    again = model(1)
    if hvd.rank() == 0:
        again.load_weights(path)
        assert are_close(again.get_weights(), job.model.get_weights(), 0)
        assert [each.name for each in tmp_path.iterdir()] == ["model.weights.h5"]


def test_a_model_that_cannot_be_written_is_an_error_on_all_ranks(tmp_path):
    with pytest.raises(OSError, match="rank 0 could not write .*nowhere"):
        hvd.parallelize(compiled()).save(tmp_path / "nowhere" / "model.keras")


def test_shares_are_those_of_this_rank():
    job = hvd.parallelize(compiled())
    size = hvd.size()
    assert job.shard(range(2 * size + 1), uneven="drop") == [hvd.rank(), size + hvd.rank()]
    with pytest.raises(ValueError, match="1 are left over"):
        job.shard(tf.data.Dataset.range(2 * size + 1))


def unbuilt():
    return tf.keras.Sequential([tf.keras.layers.Dense(2)])


@pytest.mark.parametrize("arguments, error, why", [
    (lambda: [model()], ValueError, "compile it, or give parallelize"),
    (lambda: [unbuilt(), sgd()], ValueError, r"call model.build\(input_shape\) first"),
    (lambda: [compiled(), sgd()], ValueError, "compiled with another optimizer"),
    (lambda: [lambda: None, sgd()], TypeError, "model must be one of tf.keras.*not builtins.NoneType"),
    (lambda: ["model", sgd()], TypeError, "model must be one of tf.keras.*not builtins.str"),
    (lambda: [model(), "sgd"], TypeError, "optimizer must be one of tf.keras.*not builtins.str"),
    (lambda: [hvd.parallelize(compiled()).model], ValueError, "already")])
def test_wrong_arguments_are_named(arguments, error, why):
    with pytest.raises(error, match=why):
        hvd.parallelize(*arguments())


def test_graphs_are_refused():
    with tf.Graph().as_default(), pytest.raises(RuntimeError, match="BroadcastGlobalVariablesHook"):
        hvd.parallelize(lambda: model())


@pytest.mark.skipif(not IS_KERAS_3, reason="Keras 2 does not choose XLA by itself")
def test_xla_of_a_compiled_model_is_turned_off():
    made = compiled(jit_compile=True)
    with pytest.warns(UserWarning, match="XLA cannot compile a step that waits for other ranks"):
        train(hvd.parallelize(made))
    assert not made.jit_compile and are_equal_on_all_ranks(made.get_weights())


class FakeGpus:
    """Replaces tf.config on a host with some GPUs."""

    def __init__(self, monkeypatch, number, used=False):
        self.visible, self._used = [f"GPU {each}" for each in range(number)], used
        monkeypatch.setattr(tf.config, "get_visible_devices", lambda kind: list(self.visible))
        monkeypatch.setattr(tf.config, "set_visible_devices", self._set)

    def _set(self, device, kind):
        if self._used:
            raise RuntimeError("too late")
        self.visible = [device]


def test_each_rank_keeps_the_gpu_of_its_number_on_the_host(monkeypatch):
    fake = FakeGpus(monkeypatch, hvd.size())
    hvd.parallelize(compiled)
    assert fake.visible == [f"GPU {hvd.local_rank()}"]


def test_a_single_gpu_is_left_as_it_is(monkeypatch):
    FakeGpus(monkeypatch, 1, used=True)
    gpus.keep_own(5)


def test_too_few_gpus_and_gpus_in_use_are_errors(monkeypatch):
    FakeGpus(monkeypatch, 2)
    with pytest.raises(ValueError, match="number 2 on its host, which has 2 GPUs: start at most 2"):
        gpus.keep_own(2)
    FakeGpus(monkeypatch, 2, used=True)
    with pytest.raises(RuntimeError, match="give parallelize.. a function that makes the model"):
        gpus.keep_own(1)
