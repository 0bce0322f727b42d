"""A small model of Keras, its data, and its training by all ranks, or by one process with the batches of all ranks."""
import numpy
import tensorflow as tf

import anello.tensorflow.keras as hvd

BATCH, STEPS = 4, 6
IS_KERAS_3 = hasattr(tf.keras.optimizers.Optimizer, "apply")


def batches(ranks=None):
    """Returns the batches of one rank, or larger batches, each composed of one batch of each given rank."""
    made = numpy.random.default_rng(0).normal(size=(STEPS, hvd.size(), BATCH, 7)).astype("f4")
    chosen = made[:, range(hvd.size()) if ranks is None else ranks].reshape(-1, 7)
    return chosen[:, :5], numpy.tanh(chosen[:, 5:])


def model(seed=0, hidden=6, dtype=None):
    """A model whose weights are random numbers from this seed."""
    made = tf.keras.Sequential([tf.keras.layers.InputLayer((5,)),
                                tf.keras.layers.Dense(hidden, activation="tanh", dtype=dtype),
                                tf.keras.layers.Dense(2, dtype=dtype)])
    random = numpy.random.default_rng(seed)
    made.set_weights([random.normal(size=each.shape).astype("f4") for each in made.get_weights()])
    return made


def sgd(rate=0.1):
    return tf.keras.optimizers.SGD(rate, momentum=0.9)


def fit(optimizer, ranks, passes=1, trained=None, callbacks=(), epochs=1, **options):
    """The weights after a training in which each step has one batch, combined from the batches of the given ranks.

    Args:
        passes: the batches of this number of steps are also combined into one step.
    """
    trained = trained or model()
    trained.compile(optimizer=optimizer, loss="mse", **options)
    trained.fit(*batches(ranks), batch_size=BATCH * len(ranks) * passes, shuffle=False, verbose=0, epochs=epochs,
                callbacks=list(callbacks))
    return trained.get_weights()


def take_step(optimizer, tape, loss, trained):
    """A step of a custom loop, in which a DistributedOptimizer combines gradients."""
    if IS_KERAS_3:
        optimizer.apply(tape.gradient(loss, trained), trained)
    else:
        optimizer.minimize(loss, trained, tape=tape)


def operations_of(optimizer, layers):
    """Returns the allreduces of a step that trains these layers, as nodes of a graph of TensorFlow."""
    trained = [each for layer in layers for each in layer.trainable_variables]

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            loss = tf.add_n([tf.reduce_sum(tf.convert_to_tensor(each)) for each in trained])
        take_step(optimizer, tape, loss, trained)

    return [each for each in step.get_concrete_function().graph.get_operations() if each.type == "AnelloAllreduce"]


def everyone():
    return list(range(hvd.size()))


def mine():
    return [hvd.rank()]


def are_close(ours, theirs, tolerance=1e-5):
    return all(numpy.allclose(a, b, rtol=tolerance, atol=tolerance) for a, b in zip(ours, theirs))


def are_equal_on_all_ranks(weights):
    flat = numpy.concatenate([numpy.ravel(each) for each in weights])
    rows = hvd.allgather(flat[None]).numpy()
    return bool((rows == rows[0]).all()) and bool(numpy.isfinite(rows).all())


def variables(optimizer):
    """Keras 2 has a method where Keras 3 has a list."""
    return [numpy.asarray(each) for each in optimizer.variables()]
