"""Training with anello.tensorflow: the ranks together compute what one process computes with the whole batch."""
import numpy
import pytest
import tensorflow as tf

import anello.tensorflow as hvd
from keras_models import take_step

pytestmark = pytest.mark.usefixtures("horovod_for_tensorflow")
SHAPES = [(4, 8), (8,), (8, 8), (8,), (8, 2)]


@pytest.fixture(params=["eager", "function"])
def run(request):
    """Calls a function directly, or as a function of TensorFlow."""
    return lambda call, *given: (call if request.param == "eager" else tf.function(call))(*given)


@pytest.fixture
def weights():
    """Weights that are equal on all ranks."""
    made = numpy.random.default_rng(0)
    return [tf.Variable(made.normal(size=shape).astype("f4"), name=f"weight{k}") for k, shape in enumerate(SHAPES)]


def loss(weights, batch):
    hidden = tf.tanh(batch @ weights[0] + weights[1])
    hidden = tf.tanh(hidden @ weights[2] + weights[3])
    return tf.reduce_mean(tf.square(hidden @ weights[4]))


def batches():
    """The whole batch, and this rank's part of it."""
    whole = numpy.random.default_rng(1).normal(size=(6 * hvd.size(), 4)).astype("f4")
    return whole, whole[6 * hvd.rank():][:6]


def of_one_process(weights):
    with tf.GradientTape() as tape:
        value = loss(weights, batches()[0])
    return tape.gradient(value, weights)


def of_all_ranks(run, weights, sources=None, **options):
    sources = weights if sources is None else sources

    def gradients(batch):
        with tf.GradientTape() as tape:
            value = loss(weights, batch)
        return hvd.DistributedGradientTape(tape, **options).gradient(value, sources)

    return run(gradients, batches()[1])


def near(made, expected, part=1e-4):
    """True up to a fraction of the largest element."""
    for each, its in zip(made, expected):
        numpy.testing.assert_allclose(each, its, 0, part * numpy.abs(its).max())


@pytest.mark.parametrize("options", [
    {}, {"groups": 2}, {"gradient_predivide_factor": 2.0}, {"compression": hvd.Compression.none}])
def test_gradients_are_those_of_the_whole_batch(run, weights, options):
    near(of_all_ranks(run, weights, **options), of_one_process(weights))


@pytest.mark.parametrize("threshold", ["0", "100", "1000000"])
def test_buckets_of_any_size(run, weights, threshold, monkeypatch):
    monkeypatch.setenv("HOROVOD_FUSION_THRESHOLD", threshold)
    near(of_all_ranks(run, weights, op=hvd.Sum), [each * hvd.size() for each in of_one_process(weights)])


def test_groups_of_variables(run, weights):
    near(of_all_ranks(run, weights, groups=[[weights[0], weights[4]], [weights[1]]]), of_one_process(weights))
    with pytest.warns(UserWarning, match="num_groups is deprecated"):
        near(of_all_ranks(lambda call, *given: call(*given), weights, num_groups=2), of_one_process(weights))


@pytest.mark.parametrize("compression, part", [(hvd.Compression.fp16, 2e-3), (hvd.Compression.bf16, 2e-2)])
def test_gradients_travel_rounded(run, weights, compression, part):
    near(of_all_ranks(run, weights, compression=compression), of_one_process(weights), part)


def test_a_compressor_of_the_programs_own(run, weights):

    class Halved:
        """A compressor that sends half of each tensor's values."""
        compress = staticmethod(lambda tensor: (tensor / 2, 2.0))
        decompress = staticmethod(lambda tensor, factor: tensor * factor)

    near(of_all_ranks(run, weights, compression=Halved), of_one_process(weights))


def test_a_source_without_gradient(run, weights):
    made = of_all_ranks(run, weights, [weights[0], tf.Variable(1.0), weights[4]])
    assert made[1] is None
    near(made[::2], of_one_process(weights)[::4])


def test_the_tape_is_the_one_that_it_wraps(weights):
    """A tape may be wrapped before it records, while it records, or afterwards. Sources may have any structure."""
    with hvd.DistributedGradientTape(tf.GradientTape(persistent=True)) as tape:
        value = loss(weights, batches()[1])
    made = tape.gradient(value, {"first": weights[0], "others": tuple(weights[1:])})
    near([made["first"], *made["others"]], of_one_process(weights))
    assert isinstance(tape, tf.GradientTape)
    with tf.GradientTape() as inner:
        value = loss(weights, batches()[1])
        near([hvd.DistributedGradientTape(inner).gradient(value, weights[0])], of_one_process(weights))


@pytest.mark.parametrize("generic", [False, True])
def test_generic_names(run, weights, generic):
    """The graphs of the ranks may contain different names."""

    def gradients(batch):
        with tf.name_scope(f"rank{hvd.rank()}" if generic else "all"), tf.GradientTape() as tape:
            value = loss(weights, batch)
        return hvd.DistributedGradientTape(tape).gradient(value, weights, use_generic_names=generic)

    near(run(gradients, batches()[1]), of_one_process(weights))


@pytest.mark.parametrize("scales", [True, False])
def test_local_sources(run, weights, scales):

    def gradients(batch):
        with tf.GradientTape(persistent=True) as tape:
            value = loss(weights, batch)
        alone = tape.gradient(value, weights)
        tape = hvd.DistributedGradientTape(tape, scale_local_gradients=scales)
        tape.register_local_source(weights[1])
        local, others = tape.get_local_and_global_gradients(value, weights)
        return alone[1], [each for _, each in local], [each for _, each in others]

    alone, local, others = run(gradients, batches()[1])
    near(local, [alone / hvd.size() if scales else alone])
    expected = of_one_process(weights)
    near(others, expected[:1] + expected[2:])


def test_an_infinite_gradient_of_a_local_source_reaches_all_ranks(run):
    """If losses are scaled, all ranks then skip the step with this gradient."""
    local, others = tf.Variable([1.0]), [tf.Variable([1.0]), tf.Variable([[2.0]])]

    def gradients(factor):
        with tf.GradientTape() as tape:
            value = local * factor + others[0] * others[1]
        tape = hvd.DistributedGradientTape(tape)
        tape.register_local_source(local)
        return tape.gradient(value, [local, *others])

    assert all(numpy.isfinite(each).all() for each in run(gradients, tf.constant(1.0)))
    made = run(gradients, tf.constant(numpy.inf if hvd.rank() == 1 else 1.0))
    assert not all(numpy.isfinite(each).all() for each in made[1:])


def test_local_layers(run):
    layers = [tf.keras.layers.Dense(3, kernel_initializer="ones") for _ in range(2)]
    given = tf.fill([1, 3], float(hvd.rank() + 1))
    layers[1](layers[0](given))
    variables = [layer.kernel for layer in layers]

    def gradients(batch):
        with tf.GradientTape() as tape:
            value = tf.reduce_sum(layers[1](layers[0](batch)))
        return hvd.PartialDistributedGradientTape(tape, local_layers=layers[0]).gradient(value, variables)

    made = run(gradients, given)
    near(made, [numpy.full((3, 3), 3 * (hvd.rank() + 1) / hvd.size()),
                numpy.full((3, 3), 3 * (hvd.size() + 1) / 2)])
    with pytest.raises(ValueError, match="local_layers"):
        hvd.PartialDistributedGradientTape(tf.GradientTape(), local_layers=[3])


@pytest.mark.parametrize("as_dense", [False, True])
def test_gradients_of_an_embedding(run, as_dense):
    """Rank r looks up row r, and one row that all ranks look up."""
    table = tf.Variable(tf.ones([hvd.size() + 1, 2]))

    def gradients(rows):
        with tf.GradientTape() as tape:
            value = tf.reduce_sum(tf.gather(table, rows))
        return hvd.DistributedGradientTape(tape, sparse_as_dense=as_dense).gradient(value, table)

    made = run(gradients, tf.constant([hvd.rank(), hvd.size()]))
    assert isinstance(made, tf.IndexedSlices) == (not as_dense)
    expected = numpy.full((hvd.size() + 1, 2), 1 / hvd.size())
    expected[-1] = 1
    near([tf.convert_to_tensor(made)], [expected])


@pytest.mark.parametrize("options, error", [
    ({"op": hvd.Adasum}, NotImplementedError), ({"op": hvd.Sum, "gradient_predivide_factor": 2.0}, ValueError),
    ({"groups": 0}, ValueError), ({"groups": "all"}, ValueError), ({"compression": 16}, ValueError)])
def test_wrong_arguments(options, error):
    with pytest.raises(error):
        hvd.DistributedGradientTape(tf.GradientTape(), **options)


@pytest.mark.parametrize("threshold", ["0", "1000000"])
def test_broadcast_variables(threshold, monkeypatch):
    monkeypatch.setenv("HOROVOD_FUSION_THRESHOLD", threshold)
    model = tf.keras.Sequential([tf.keras.Input((3,)), tf.keras.layers.Dense(2)])
    optimizer = tf.keras.optimizers.Adam()
    optimizer.build(model.trainable_variables)
    for each in [*model.variables, *optimizer.variables()]:
        each.assign(tf.cast(tf.fill(each.shape, hvd.rank() + 5), each.dtype))
    hvd.broadcast_variables(model.variables, root_rank=1)
    hvd.broadcast_variables(optimizer.variables(), root_rank=0)
    assert all((numpy.asarray(each) == 6).all() for each in model.variables)
    assert len(optimizer.variables()) == len(optimizer.variables) > 4
    assert all((numpy.asarray(each) == 5).all() for each in optimizer.variables())
    variable = tf.Variable([float(hvd.rank())])
    numpy.testing.assert_array_equal(hvd.broadcast_([variable], 1)[0], [1])
    assert float(variable[0]) == 1
    with pytest.raises(RuntimeError, match="broadcast_variables"):
        hvd.broadcast_global_variables(0)


def test_sync_batch_normalization(run):
    """Ranks have different numbers of rows; if there are three ranks, one of them has no rows."""
    whole = numpy.random.default_rng(2).normal(3, 2, size=(4 * hvd.size(), 5, 3)).astype("f4")
    ends = [0, 1, len(whole)] if hvd.size() == 2 else [0, 1, 1, len(whole)]
    mine = slice(ends[hvd.rank()], ends[hvd.rank() + 1])
    alone, ours = tf.keras.layers.BatchNormalization(momentum=0.5), hvd.SyncBatchNormalization(momentum=0.5)
    alone.build(whole.shape), ours.build(whole.shape)

    def forward(layer, batch):
        with tf.GradientTape() as tape:
            tape.watch(batch)
            made = layer(batch, training=True)
            value = tf.reduce_sum(tf.sin(made))
        return made, tape.gradient(value, batch)

    expected = run(lambda batch: forward(alone, batch), tf.constant(whole))
    made = run(lambda batch: forward(ours, batch), tf.constant(whole[mine]))
    numpy.testing.assert_allclose(made[0], expected[0][mine], 1e-3, 1e-4)
    # The gradient of a sum over ranks is the sum of the ranks' gradients.
    numpy.testing.assert_allclose(made[1], expected[1][mine], 1e-2, 1e-4)
    for name in ("moving_mean", "moving_variance"):
        numpy.testing.assert_allclose(getattr(ours, name), getattr(alone, name), 1e-4)
    with pytest.raises(ValueError, match="fused"):
        hvd.SyncBatchNormalization(fused=True)


def test_elastic_state():
    variables = [tf.Variable([float(hvd.rank())]), tf.Variable(hvd.rank())]
    state = hvd.elastic.TensorFlowState(variables, batch=hvd.rank())

    @hvd.elastic.run
    def train(state):
        assert float(variables[0][0]) == 0 and int(variables[1]) == 0 and state.batch == 0
        variables[0].assign([4.0])
        state.batch = 4
        state.commit()
        variables[0].assign([5.0])
        state.batch = 5
        state.restore()
        return float(variables[0][0]), state.batch

    assert train(state) == (4, 4)


@pytest.mark.parametrize("given", [(hvd.broadcast_object, hvd.rank), ()], ids=["as_horovod", "alone"])
def test_elastic_state_of_objects(given):
    state = hvd.elastic.ObjectState(*given, epoch=hvd.rank())
    state.sync()
    assert state.epoch == 0


def test_elastic_state_is_broadcast_as_it_is_asked():
    state = hvd.elastic.ObjectState(bcast_object=lambda values: {"epoch": values["epoch"] + 1}, get_rank=hvd.rank,
                                    epoch=hvd.rank())
    state.sync()
    assert state.epoch == hvd.rank() + 1


def test_elastic_state_of_keras():
    model = tf.keras.Sequential([tf.keras.Input((3,)), tf.keras.layers.Dense(2), tf.keras.layers.Dropout(0.5)])
    model.compile(tf.keras.optimizers.SGD(), "mse")
    model.optimizer.iterations.assign(hvd.rank() + 7)
    state = hvd.elastic.TensorFlowKerasState(model, epoch=hvd.rank() + 1)
    state.sync()
    assert int(model.optimizer.iterations) == 7 and state.epoch == 1
    assert len(set(map(bytes, hvd.allgather_object(model.get_weights()[0].tobytes())))) == 1
    model.optimizer.learning_rate = 0.5 if hvd.rank() == 0 else 0.25
    state.sync()
    assert float(tf.convert_to_tensor(model.optimizer.learning_rate)) == 0.5


def test_elastic_states_restore_optimizers_that_had_taken_no_step():
    optimizer = tf.keras.optimizers.SGD(1.0, momentum=0.5)
    model = tf.keras.Sequential([tf.keras.Input((1,)), tf.keras.layers.Dense(1, use_bias=False)])
    state = hvd.elastic.TensorFlowKerasState(model, optimizer)
    before = [numpy.asarray(each) for each in optimizer.variables]
    optimizer.apply_gradients([(tf.ones([1, 1]), model.trainable_variables[0])])
    state.restore()
    numpy.testing.assert_equal([numpy.asarray(each) for each in optimizer.variables], before)


def test_optimizers_are_numbered_by_their_process_set():
    """The optimizers of one set do not count in other sets. Optimizers that some ranks use after other ranks have
    joined do not count either."""

    def train(optimizer):
        variable = tf.Variable([0.0])
        with tf.GradientTape() as tape:
            loss = variable * (hvd.rank() + 1.0)
        take_step(optimizer, tape, loss, [variable])
        return float(variable.numpy()[0])

    def made(**options):
        return hvd.DistributedOptimizer(tf.keras.optimizers.SGD(1.0), **options)

    average = -(hvd.size() + 1) / 2
    first = hvd.add_process_set([0, 1]) if hvd.size() > 2 else hvd.global_process_set
    assert train(made(process_set=first)) == (-1.5 if hvd.rank() < 2 else -3)
    assert train(made()) == average
    if hvd.rank() == 0:
        assert train(made()) == pytest.approx(-1 / hvd.size())
    hvd.join()
    assert train(made()) == average
    if first is not hvd.global_process_set:
        hvd.remove_process_set(first)


def test_the_variables_of_an_optimizer_that_scales_losses_are_a_method_too():
    optimizer = tf.keras.mixed_precision.LossScaleOptimizer(tf.keras.optimizers.Adam())
    assert len(optimizer.variables()) == len(optimizer.variables) > 0


@pytest.mark.parametrize("passes", [1, 2])
def test_an_optimizer_of_a_graph(passes):
    """Runs in a session of TensorFlow 1: broadcasts the root's variables, then steps with all ranks' gradients."""
    with tf.Graph().as_default():
        variable = tf.compat.v1.get_variable("weight", initializer=tf.constant([float(hvd.rank() + 3)]))
        step = tf.compat.v1.train.get_or_create_global_step()
        optimizer = hvd.DistributedOptimizer(tf.compat.v1.train.GradientDescentOptimizer(0.5),
                                             backward_passes_per_step=passes, average_aggregated_gradients=True)
        train = optimizer.minimize(variable * float(hvd.rank() + 1), global_step=step)
        hooks = [hvd.BroadcastGlobalVariablesHook(0)]
        with tf.compat.v1.train.MonitoredTrainingSession(hooks=hooks) as session:
            seen = [float(session.run(variable)[0])]
            for _ in range(4):
                session.run(train)
                seen.append(float(session.run(variable)[0]))
            counted = int(session.run(step))
    each = (hvd.size() + 1) / 4
    numpy.testing.assert_allclose(seen, [3 - each * (k // passes) for k in range(5)], 1e-6)
    assert counted == 4


def test_two_optimizers_of_a_graph_add_up_their_own_passes():
    with tf.Graph().as_default():
        weights = [tf.compat.v1.get_variable(name, initializer=tf.constant([0.0])) for name in ("first", "second")]
        train = [hvd.DistributedOptimizer(tf.compat.v1.train.GradientDescentOptimizer(1.0), backward_passes_per_step=2)
                 .minimize(each * factor, var_list=[each]) for each, factor in zip(weights, (1.0, 100.0))]
        with tf.compat.v1.Session() as session:
            session.run([tf.compat.v1.global_variables_initializer(), tf.compat.v1.local_variables_initializer()])
            for _ in range(2):
                session.run(train)
            numpy.testing.assert_array_equal(session.run(weights), [[-2], [-200]])
