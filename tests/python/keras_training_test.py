"""anello.tensorflow.keras: the ranks together train like one process with the batches of all ranks."""
import numpy
import pytest
import tensorflow as tf

import anello.tensorflow.keras as hvd
from anello import Mismatch
from keras_models import (BATCH, IS_KERAS_3, are_close, are_equal_on_all_ranks, batches, everyone, fit, mine, model,
                          operations_of, sgd, take_step, variables)

pytestmark = pytest.mark.usefixtures("horovod_for_tensorflow")
only_keras_3 = pytest.mark.skipif(not IS_KERAS_3, reason="an interface of Keras 3")
for_any_keras = pytest.mark.skipif(not IS_KERAS_3, reason="nothing in it depends on Keras: once is enough")


@pytest.fixture(scope="module")
def alone(horovod_for_tensorflow):
    """The weights of one process that trains with the batches of all ranks."""
    return fit(sgd(), everyone())


@pytest.mark.parametrize("options", [{}, {"run_eagerly": True}, {"steps_per_execution": 3}],
                         ids=["function", "eagerly", "loop"])
def test_all_ranks_train_as_one_process(alone, options):
    ours = fit(hvd.DistributedOptimizer(sgd()), mine(), **options)
    assert are_close(ours, alone) and are_equal_on_all_ranks(ours)


@for_any_keras
def test_gradients_travel_in_buckets(alone, monkeypatch):
    monkeypatch.setenv("HOROVOD_FUSION_THRESHOLD", "64")
    assert are_close(fit(hvd.DistributedOptimizer(sgd()), mine()), alone)


@for_any_keras
@pytest.mark.parametrize("groups", [2, "lists"])
def test_gradients_travel_in_groups(alone, groups):
    trained = model()
    if groups == "lists":
        groups = [trained.trainable_variables[:3]]
    assert are_close(fit(hvd.DistributedOptimizer(sgd(), groups=groups), mine(), trained=trained), alone)


@for_any_keras
def test_rounded_gradients_are_close(alone):
    ours = fit(hvd.DistributedOptimizer(sgd(), compression=hvd.Compression.fp16), mine())
    assert are_close(ours, alone, 0.01) and are_equal_on_all_ranks(ours)


@for_any_keras
def test_sums_are_those_of_a_larger_rate(alone):
    assert are_close(fit(hvd.DistributedOptimizer(sgd(0.1 / hvd.size()), op=hvd.Sum), mine()), alone, 1e-4)


@for_any_keras
def test_a_predivided_average_is_the_average(alone):
    ours = fit(hvd.DistributedOptimizer(sgd(), gradient_predivide_factor=4.0), mine())
    assert are_close(ours, alone, 1e-4) and are_equal_on_all_ranks(ours)


@for_any_keras
def test_an_optimizer_of_hvd_tensorflow_is_that_of_keras(alone):
    import anello.tensorflow
    assert are_close(fit(anello.tensorflow.DistributedOptimizer(sgd()), mine()), alone)


@pytest.mark.parametrize("eagerly", [False, True])
def test_several_passes_make_a_step(eagerly):
    """In one process, one step has the batches of both passes of all ranks."""
    x, y = (each.reshape(-1, 2, hvd.size(), BATCH, each.shape[-1]) for each in batches())
    trained = model()
    trained.compile(optimizer=sgd(), loss="mse")
    trained.fit(x.reshape(-1, 5), y.reshape(-1, 2), batch_size=2 * hvd.size() * BATCH, shuffle=False, verbose=0)
    made = hvd.DistributedOptimizer(sgd(), backward_passes_per_step=2, average_aggregated_gradients=True)
    ours = fit(made, mine(), run_eagerly=eagerly)
    assert are_close(ours, trained.get_weights()) and are_equal_on_all_ranks(ours)
    assert int(made.iterations) == 6 and int(made._agg_helper.counter) == 0


@for_any_keras
def test_passes_are_added_up_unless_they_are_averaged():
    averaged = fit(hvd.DistributedOptimizer(sgd(0.2), backward_passes_per_step=3, average_aggregated_gradients=True), mine())
    added = fit(hvd.DistributedOptimizer(sgd(0.2 / 3), backward_passes_per_step=3), mine())
    assert are_close(averaged, added)


def test_a_variable_without_gradient_in_the_last_pass_takes_part_in_the_step():
    """The gradients of the variable in earlier passes belong to this step, and not to the next one."""
    made = hvd.DistributedOptimizer(tf.keras.optimizers.SGD(1.0), backward_passes_per_step=2)
    weights = [tf.Variable([0.0]) for _ in range(2)]
    for used in (2, 1, 2, 1):
        with tf.GradientTape() as tape:
            loss = tf.add_n([each * float(hvd.rank() + 1) for each in weights[:used]])
        take_step(made, tape, loss, weights)
    average = (hvd.size() + 1) / 2
    assert are_close(weights, [[-4 * average], [-2 * average]])


def test_operations_are_named_by_the_program():
    made = hvd.DistributedOptimizer(sgd(), name="mine")
    assert all(each.name.split("/")[-1].startswith("mine_") for each in operations_of(made, model().layers))


@for_any_keras
def test_indexed_slices_are_gathered_or_added_up():
    def embedded(optimizer):
        tf.keras.utils.set_random_seed(3)
        trained = tf.keras.Sequential([tf.keras.layers.Embedding(9, 3), tf.keras.layers.Dense(1)])
        trained.compile(optimizer=optimizer, loss="mse")
        rows = numpy.arange(8).reshape(4, 2) + hvd.rank()
        trained.fit(rows, numpy.ones((4, 2, 1), "f4"), batch_size=4, epochs=2, verbose=0)
        return trained.get_weights()

    gathered = embedded(hvd.DistributedOptimizer(tf.keras.optimizers.SGD(0.5)))
    added = embedded(hvd.DistributedOptimizer(tf.keras.optimizers.SGD(0.5), sparse_as_dense=True))
    assert are_close(gathered, added) and are_equal_on_all_ranks(gathered)
    with pytest.raises(ValueError, match="sparse_as_dense=True"):
        embedded(hvd.DistributedOptimizer(tf.keras.optimizers.SGD(0.5), backward_passes_per_step=2))


def scaling(optimizer):
    """Mixed precision, set up by Keras's compile(), or by the program itself."""
    return tf.keras.mixed_precision.LossScaleOptimizer(optimizer, initial_scale=64.0)


def wrapped_by_program(optimizer):
    return hvd.DistributedOptimizer(scaling(optimizer))


def wrapped_by_keras(optimizer):
    return scaling(hvd.DistributedOptimizer(optimizer))


@pytest.mark.parametrize("wrap", [wrapped_by_program, wrapped_by_keras])
@pytest.mark.parametrize("eagerly", [False, True])
def test_an_infinite_gradient_of_one_rank_lets_all_leave_the_step_out(wrap, eagerly):
    optimizer, trained = wrap(tf.keras.optimizers.SGD(0.1)), model()
    trained.compile(optimizer=optimizer, loss="mse", run_eagerly=eagerly)
    x, y = batches(mine())
    trained.train_on_batch(x[:BATCH], y[:BATCH])
    before = trained.get_weights()
    trained.train_on_batch(x[:BATCH] * (numpy.inf if hvd.rank() == 0 else 1), y[:BATCH])
    assert are_close(trained.get_weights(), before, 0)
    assert float(optimizer.dynamic_scale if IS_KERAS_3 else optimizer.loss_scale) == 32.0
    trained.train_on_batch(x[:BATCH], y[:BATCH])
    assert not are_close(trained.get_weights(), before) and are_equal_on_all_ranks(trained.get_weights())


@pytest.mark.parametrize("wrap", [wrapped_by_program, wrapped_by_keras])
def test_an_infinite_gradient_of_a_local_layer_lets_all_leave_the_step_out(wrap):
    optimizer = wrap(tf.keras.optimizers.SGD(0.1))
    inputs, layers = [tf.keras.Input((1,)) for _ in range(2)], [tf.keras.layers.Dense(1) for _ in range(2)]
    trained = tf.keras.Model(inputs, layers[0](inputs[0]) + layers[1](inputs[1]))
    of_all_ranks = optimizer if hasattr(optimizer, "register_local_var") else optimizer.inner_optimizer
    for each in layers[0].trainable_variables:
        of_all_ranks.register_local_var(each)
    trained.compile(optimizer=optimizer, loss=lambda _, made: tf.reduce_mean(made))
    one = numpy.ones((1, 1), "f4")
    trained.train_on_batch([one, one], one)
    before = trained.get_weights()
    trained.train_on_batch([one * (numpy.inf if hvd.rank() == 0 else 1), one], one)
    assert are_close(trained.get_weights(), before, 0)
    assert float(optimizer.dynamic_scale if IS_KERAS_3 else optimizer.loss_scale) == 32.0


def test_compile_scales_the_loss_of_mixed_float16():
    trained = model(dtype="mixed_float16")
    if IS_KERAS_3:
        trained.dtype_policy = tf.keras.mixed_precision.Policy("mixed_float16")
        trained.compile(optimizer=hvd.DistributedOptimizer(sgd()), loss="mse")
        assert isinstance(trained.optimizer, tf.keras.mixed_precision.LossScaleOptimizer)
    else:
        trained.compile(optimizer=scaling(hvd.DistributedOptimizer(sgd())), loss="mse")
    x, y = batches(mine())
    for step in range(3):
        trained.train_on_batch(x[:BATCH] * (numpy.inf if hvd.rank() == 0 and step == 1 else 1), y[:BATCH])
    assert are_equal_on_all_ranks(trained.get_weights())


def test_local_layers_keep_their_gradients():
    trained = model()
    first, last = trained.layers[-2:]
    made = hvd.PartialDistributedOptimizer(tf.keras.optimizers.SGD(0.1), local_layers=first)
    fit(made, mine(), trained=trained)
    assert are_equal_on_all_ranks(last.get_weights()) and not are_equal_on_all_ranks(first.get_weights())
    with pytest.raises(ValueError, match="build the model first"):
        hvd.PartialDistributedOptimizer(sgd(), local_layers=[tf.keras.layers.Dense(2)])


def test_partial_optimizers_take_the_arguments_of_the_others():
    layers = model().layers[-2:]
    made = hvd.PartialDistributedOptimizer(sgd(), local_layers=layers[1:], groups=2, op=hvd.Sum,
                                           compression=hvd.Compression.fp16)
    nodes = operations_of(made, layers)
    assert [(each.get_attr("reduce_op"), each.get_attr("wire")) for each in nodes] == [(hvd.Sum, b"f16")] * 2


@pytest.mark.parametrize("scales", [True, False])
def test_local_gradients_are_scaled_or_not(scales):
    x, y = (each[:BATCH] for each in batches(mine()))
    alone, ours = model(), model()
    alone.compile(optimizer=tf.keras.optimizers.SGD(0.1), loss="mse")
    alone.train_on_batch(x, y)
    ours.compile(optimizer=hvd.PartialDistributedOptimizer(tf.keras.optimizers.SGD(0.1), local_layers=ours.layers,
                                                           scale_local_gradients=scales), loss="mse")
    ours.train_on_batch(x, y)
    part = 1 / hvd.size() if scales else 1
    for start, end, made in zip(model().get_weights(), alone.get_weights(), ours.get_weights()):
        assert numpy.allclose(made - start, (end - start) * part, atol=1e-6)


def test_a_rank_that_made_more_models_trains_with_the_others(alone):
    """Keras numbers layers and optimizers in their names, so the names differ between ranks."""
    if hvd.rank() == 0:
        fit(sgd(), everyone())
        hvd.DistributedOptimizer(sgd())
    assert are_close(fit(hvd.DistributedOptimizer(sgd()), mine()), alone)


@for_any_keras
def test_two_optimizers_take_turns():
    made = [hvd.DistributedOptimizer(sgd()) for _ in range(2)]
    models = [model(seed) for seed in range(2)]
    for each, optimizer in zip(models, made):
        each.compile(optimizer=optimizer, loss="mse")
    for _ in range(2):
        for each in models:
            each.train_on_batch(*batches(mine()))
    assert all(are_equal_on_all_ranks(each.get_weights()) for each in models)


def test_different_models_are_named():
    hidden = 6 if hvd.rank() == 0 else 7
    with pytest.raises(Mismatch, match=r"the models of the ranks differ: rank 0 has.*only rank 0 has '0: kernel \(5, 6\)'"):
        fit(hvd.DistributedOptimizer(sgd()), mine(), trained=model(hidden=hidden))


def test_variables_that_one_rank_changes_are_no_reason_to_wait():
    optimizer, trained = hvd.DistributedOptimizer(tf.keras.optimizers.SGD(0.1)), model()
    fit(optimizer, mine(), trained=trained)
    if hvd.rank() == 0:
        trained.layers[-1].trainable = False
        with pytest.raises(Mismatch, match="this rank has other variables than in its last step"):
            fit(optimizer, mine(), trained=trained, run_eagerly=True)
    else:
        with pytest.raises((Mismatch, tf.errors.FailedPreconditionError), match="gradients_0"):
            fit(optimizer, mine(), trained=trained, run_eagerly=True)


@only_keras_3
def test_xla_is_turned_off_or_refused(monkeypatch):
    class Gpu:
        device_type = "GPU"

    with pytest.raises(NotImplementedError, match="jit_compile=False"):
        fit(hvd.DistributedOptimizer(sgd()), mine(), jit_compile=True)
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda *_: [Gpu()])
    plain = model()
    plain.compile(optimizer=sgd(), loss="mse")
    assert plain.jit_compile
    for wrap in (hvd.DistributedOptimizer, wrapped_by_keras, wrapped_by_program):
        trained = model()
        with pytest.warns(UserWarning, match="XLA cannot compile a step that waits for other ranks"):
            trained.compile(optimizer=wrap(sgd()), loss="mse")
        assert not trained.jit_compile


def test_a_rank_outside_of_the_process_set_trains_alone():
    first = hvd.add_process_set([0])
    ours = fit(hvd.DistributedOptimizer(sgd(), process_set=first), mine())
    assert are_close(ours, fit(sgd(), mine()), 1e-6)
    hvd.remove_process_set(first)


@pytest.mark.parametrize("wrong, error", [({"op": hvd.Max}, ValueError), ({"op": hvd.Adasum}, NotImplementedError),
                                          ({"backward_passes_per_step": 0}, ValueError), ({"groups": -1}, ValueError),
                                          ({"compression": 3}, ValueError)])
def test_wrong_arguments_leave_the_optimizer_as_it_is(wrong, error):
    optimizer = sgd()
    with pytest.raises(error):
        hvd.DistributedOptimizer(optimizer, **wrong)
    assert type(optimizer) is tf.keras.optimizers.SGD


def test_only_optimizers_of_this_keras_are_wrapped_and_once():
    with pytest.raises(TypeError, match="one of tf.keras"):
        hvd.DistributedOptimizer("adam")
    with pytest.raises(ValueError, match="already"):
        hvd.DistributedOptimizer(hvd.DistributedOptimizer(sgd()))


def test_the_variables_of_an_optimizer_are_a_list_and_a_method():
    optimizer = hvd.DistributedOptimizer(sgd())
    assert len(variables(optimizer)) == len(list(optimizer.variables))
