"""The callbacks of anello.tensorflow.keras, its elastic states, and operations on values."""
import numpy
import pytest
import tensorflow as tf

import anello.keras
import anello.tensorflow.keras as hvd
from anello import Mismatch
from keras_models import (BATCH, STEPS, are_close, are_equal_on_all_ranks, batches, everyone, fit, mine,
                          model, sgd)

pytestmark = pytest.mark.usefixtures("horovod_for_tensorflow")


class Rates(tf.keras.callbacks.Callback):
    """Records the learning rate of each batch, and the results of a function."""

    def __init__(self, find=lambda model: None):
        super().__init__()
        self.rates, self.found, self._find = [], [], find

    def on_train_batch_begin(self, batch, logs=None):
        self.rates.append(float(tf.convert_to_tensor(self.model.optimizer.learning_rate)))

    def on_train_batch_end(self, batch, logs=None):
        self.found.append(self._find(self.model))


def test_all_ranks_begin_with_the_variables_of_the_root():
    root = hvd.size() - 1
    alone = fit(sgd(), everyone(), trained=model(root))
    ours = fit(hvd.DistributedOptimizer(sgd()), mine(), trained=model(hvd.rank()),
               callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(root)])
    assert are_close(ours, alone) and are_equal_on_all_ranks(ours)


def test_the_state_of_the_optimizer_is_broadcast():
    made = hvd.DistributedOptimizer(tf.keras.optimizers.SGD(0.1 if hvd.rank() == 0 else 0.2, momentum=0.9))
    fit(made, mine(), callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0)])
    assert float(tf.convert_to_tensor(made.learning_rate)) == pytest.approx(0.1)


def test_random_layers_keep_the_seeds_of_their_rank():
    dropped = tf.keras.layers.Dropout(0.5, seed=hvd.rank())
    trained = tf.keras.Sequential([tf.keras.layers.InputLayer((5,)), dropped, tf.keras.layers.Dense(2)])
    fit(hvd.DistributedOptimizer(sgd()), mine(), trained=trained,
        callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0)])
    assert not are_equal_on_all_ranks([dropped(numpy.ones((1, 64), "f4"), training=True)])
    assert are_equal_on_all_ranks(trained.get_weights())


def test_different_models_are_named_before_they_are_broadcast():
    with pytest.raises(Mismatch, match="the models of the ranks differ"):
        fit(hvd.DistributedOptimizer(sgd()), mine(), trained=model(hidden=6 + hvd.rank()),
            callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0)])


def test_local_variables_stay_those_of_the_rank():
    trained = model(hvd.rank())
    trained.trainable = False
    kernel, bias = trained.layers[-1].variables
    local = hvd.callbacks.BroadcastGlobalVariablesCallback(0, local_variables=bias)
    local.register_local_var(kernel)
    fit(sgd(), mine(), trained=trained, callbacks=[local])
    assert are_close(trained.layers[-1].get_weights(), model(hvd.rank()).layers[-1].get_weights(), 0)
    assert are_close(trained.layers[-2].get_weights(), model(0).layers[-2].get_weights(), 0)
    with pytest.raises(ValueError, match="must be variables"):
        hvd.callbacks.BroadcastGlobalVariablesCallback(0, local_variables=[3])


def test_metrics_are_averages():
    trained = model()
    trained.compile(optimizer=hvd.DistributedOptimizer(sgd()), loss="mse")
    seen = trained.fit(*batches(mine()), batch_size=BATCH, shuffle=False, verbose=0,
                       callbacks=[hvd.callbacks.MetricAverageCallback()]).history
    again = model()
    again.compile(optimizer=sgd(), loss="mse")
    whole = again.fit(*batches(), batch_size=BATCH * hvd.size(), shuffle=False, verbose=0).history
    assert seen["loss"] == pytest.approx(whole["loss"], rel=1e-4)
    logs = {"loss": float(hvd.rank()), "val_score": 2.0 * hvd.rank()}
    hvd.callbacks.MetricAverageCallback().on_epoch_end(0, logs)
    assert logs == {"loss": (hvd.size() - 1) / 2, "val_score": hvd.size() - 1}


def test_the_rate_warms_up(capfd):
    """Goyal et al., 2017: the rate rises from that of one rank to that of all ranks, in equal steps."""
    rates, final = Rates(), 0.1
    fit(sgd(final), mine(), epochs=3, callbacks=[
        hvd.callbacks.LearningRateWarmupCallback(final, warmup_epochs=2, verbose=1), rates])
    part = [min(1.0, (batch + 1) / (2 * STEPS)) for batch in range(3 * STEPS)]
    assert rates.rates == pytest.approx([final * (1 + each * (hvd.size() - 1)) / hvd.size() for each in part])
    said = "Epoch 2: the learning rate has reached 0.1." in capfd.readouterr().out
    assert said == (hvd.rank() == 0)


def test_rates_follow_a_schedule():
    rates, schedule = Rates(), hvd.callbacks.LearningRateScheduleCallback
    seen = model()
    seen.compile(optimizer=sgd(0.5), loss="mse")
    history = seen.fit(*batches(mine()), batch_size=BATCH * STEPS, epochs=5, verbose=0, callbacks=[
        schedule(0.5, lambda epoch: 1 + epoch, end_epoch=2), schedule(0.5, 0.1, start_epoch=2), rates]).history
    assert rates.rates == pytest.approx([0.5, 1.0, 0.5, 0.05, 0.005])
    assert history["lr"] == pytest.approx(rates.rates)


def test_a_warm_up_takes_the_number_of_batches_that_it_is_given():
    rates = Rates()
    fit(sgd(), mine(), callbacks=[
        hvd.callbacks.LearningRateWarmupCallback(0.1, warmup_epochs=1, steps_per_epoch=2 * STEPS), rates])
    part = [(batch + 1) / (2 * STEPS) for batch in range(STEPS - 1)]
    expected = [0.1 * (1 + each * (hvd.size() - 1)) / hvd.size() for each in part]
    assert rates.rates[0] == pytest.approx(expected[0]) and rates.rates[-1] < 0.1


@pytest.mark.parametrize("corrects", [True, False])
@pytest.mark.parametrize("wrap", [lambda optimizer: optimizer, lambda optimizer:
                                  tf.keras.mixed_precision.LossScaleOptimizer(optimizer, initial_scale=1.0)])
def test_velocities_change_with_the_rate(corrects, wrap):
    """A step with momentum m and rate r computes v = m * v - r * g. When the rate changes, the correction uses m * r /
    r_before in place of m."""
    trained, kept = model(), Rates(lambda model: (model.layers[-1].get_weights()[1]))
    factors = [1.0, 1.0, 0.5, 0.5, 0.25, 0.25]
    schedule = hvd.callbacks.LearningRateScheduleCallback(0.1, lambda epoch: factors[round(epoch * STEPS)],
                                                          staircase=False, momentum_correction=corrects)
    fit(wrap(sgd()), mine(), trained=trained, callbacks=[schedule, kept])
    expected = model()
    optimizer = tf.keras.optimizers.SGD(1.0)  # takes velocities as they are computed here
    velocities, before = [0.0] * 4, 0.1
    for step, factor in enumerate(factors):
        x, y = (each[step * BATCH:][:BATCH] for each in batches(mine()))
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(expected(x) - y))
        gradients = tape.gradient(loss, expected.trainable_variables)
        rate = 0.1 * factor
        velocities = [0.9 * (rate / before if corrects else 1) * v - rate * g for v, g in zip(velocities, gradients)]
        optimizer.apply_gradients(zip([-v for v in velocities], expected.trainable_variables))
        before = rate
    assert are_close(trained.get_weights(), expected.get_weights())


def test_velocities_of_rmsprop_change_with_the_rate():
    trained = model()
    fit(tf.keras.optimizers.RMSprop(0.1, momentum=0.9), mine(), trained=trained)
    before = trained.optimizer._momentums[0].numpy()
    schedule = hvd.callbacks.LearningRateScheduleCallback(0.1, 0.5)
    schedule.set_model(trained)
    schedule.on_epoch_begin(1)
    schedule.on_train_batch_begin(0)
    assert are_close([trained.optimizer._momentums[0].numpy()], [before / 2]) and before.any()


def test_a_schedule_needs_the_number_of_batches():
    schedule = hvd.callbacks.LearningRateWarmupCallback(0.1)
    schedule.set_params({})
    with pytest.raises(ValueError, match="LearningRateWarmupCallback steps_per_epoch"):
        schedule.on_train_begin()


def test_only_rank_0_writes_the_best_model(tmp_path):
    file = tmp_path / "best.h5"  # Keras 2.13 cannot write "best.keras" in this callback
    best = hvd.callbacks.BestModelCheckpoint(monitor="loss")
    with pytest.raises(ValueError, match="filepath"):
        fit(sgd(), mine(), callbacks=[best])
    best.filepath = str(file)
    fit(sgd(), mine(), callbacks=[best])
    assert file.exists() == (hvd.rank() == 0)


def test_the_best_model_is_kept(tmp_path):
    """The callback selects by the given metric and direction. Only rank 0 writes; it can also write after a batch."""
    file, trained = tmp_path / "best.weights.h5", model(0)
    best = hvd.callbacks.BestModelCheckpoint("score", save_weights_only=True, mode="max", filepath=str(file))
    trained.compile(optimizer=sgd(), loss="mse")
    best.set_model(trained)
    for epoch, score in enumerate([1.0, 3.0, 2.0]):
        trained.set_weights(model(epoch).get_weights())
        best.on_epoch_end(epoch, {"score": score, "val_loss": -epoch})
    assert file.exists() == (hvd.rank() == 0)
    kept = model(1).get_weights()  # called on all ranks, so that later layers have equal names on all ranks
    if hvd.rank() == 0:
        trained.load_weights(str(file))
        assert are_close(trained.get_weights(), kept, 0)
    often = tmp_path / "often.keras"
    fit(sgd(), mine(), callbacks=[hvd.callbacks.BestModelCheckpoint("loss", filepath=str(often), save_freq=STEPS)])
    assert often.exists() == (hvd.rank() == 0)


def test_elastic_states_commit_and_restore():
    trained = model(hvd.rank())
    state = hvd.elastic.KerasState(trained, tf.keras.optimizers.Adam(), epoch=hvd.rank(), batch=0)
    state.sync()
    assert are_equal_on_all_ranks(trained.get_weights()) and state.epoch == 0
    before = trained.get_weights()
    trained.compile(optimizer=hvd.DistributedOptimizer(sgd()), loss="mse")
    state = hvd.elastic.KerasState(trained, epoch=0, batch=0)
    trained.fit(*batches(mine()), batch_size=BATCH, verbose=0, epochs=2,
                callbacks=[hvd.elastic.UpdateBatchStateCallback(state), hvd.elastic.UpdateEpochStateCallback(state)])
    trained.fit(*batches(mine()), batch_size=BATCH, verbose=0,
                callbacks=[hvd.elastic.UpdateEpochStateCallback(state)])
    assert (state.epoch, state.batch) == (3, 0) and not are_close(trained.get_weights(), before)
    state.restore()
    assert are_close(trained.get_weights(), before, 0) and state.epoch == 0


def test_a_state_is_committed_after_batches_and_epochs():
    trained = model()
    state = hvd.elastic.KerasState(trained, sgd(), batch=0)
    commits = []
    state.commit = lambda: commits.append(state.batch)
    fit(sgd(), mine(), trained=trained, callbacks=[hvd.elastic.UpdateBatchStateCallback(state),
                                                   hvd.elastic.CommitStateCallback(state, batches_per_commit=2)])
    assert commits == [1, 3, 5, 0]


def test_values_are_reduced_gathered_and_broadcast():
    ranks = numpy.arange(hvd.size())
    assert hvd.allreduce(float(hvd.rank())).numpy() == ranks.mean()
    assert hvd.allreduce([float(hvd.rank())], average=False).numpy().tolist() == [ranks.sum()]
    assert hvd.allreduce(float(hvd.rank()), op=hvd.Max, name="most").numpy() == ranks.max()
    assert hvd.allgather([hvd.rank()]).numpy().tolist() == ranks.tolist()
    assert hvd.broadcast(hvd.rank(), 1).numpy() == 1
    assert hvd.allreduce(1.0, op=hvd.Sum, prescale_factor=3.0, postscale_factor=5.0).numpy() == 15 * hvd.size()
    third = tf.constant([1 / 3])
    rounded = hvd.allreduce(third, compression=hvd.Compression.bf16)
    assert rounded.numpy() == tf.cast(tf.cast(third, tf.bfloat16), tf.float32).numpy()
    rows = hvd.reducescatter(numpy.ones((hvd.size(), 2), "f4"), op=hvd.Sum).numpy()
    assert rows.tolist() == [[hvd.size()] * 2]


@pytest.mark.parametrize("call", [hvd.allreduce, hvd.allgather, lambda value, name: hvd.broadcast(value, 0, name),
                                  hvd.reducescatter])
def test_operations_on_values_have_names(call):
    with pytest.raises(tf.errors.FailedPreconditionError, match="'mine'"):
        call(numpy.ones(2, "f4" if hvd.rank() else "f8"), name="mine")


def test_the_older_module_has_the_same_names():
    assert all(getattr(anello.keras, name) is getattr(hvd, name) for name in hvd.__all__
               if name not in ("callbacks", "elastic"))
    assert anello.keras.callbacks.MetricAverageCallback is hvd.callbacks.MetricAverageCallback
    assert anello.keras.elastic.KerasState is hvd.elastic.KerasState
