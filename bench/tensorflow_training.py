"""Measures TensorFlow's operations and training steps, through Anello or through Horovod. Prints the median
time of each in microseconds; a call's time is that of its slowest rank. bench/tensorflow.sh runs both
libraries in turn.
PYTHONPATH=build/release/python anello run -n 2 -- python3 bench/tensorflow_training.py anello
"""
import argparse
import importlib
import os
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy
import tensorflow as tf

FEWEST, MOST, WARMUP = 3, 3000, 3
FIT_STEPS = 100


def eager(hvd):
    tensor = tf.ones(256)
    return lambda: hvd.allreduce(tensor, op=hvd.Sum)


def function(hvd, parts, floats):
    """Returns a function with an operation for each part of a tensor. The parts are no list, because Python takes
    longer for a list of tensors."""
    given = tf.ones(parts * floats)
    call = tf.function(lambda all: tf.concat([hvd.allreduce(each, op=hvd.Sum) for each in tf.split(all, parts)], 0))
    return lambda: call(given)


def step(hvd, layers, width, rows, biases):
    """A step of SGD for dense layers; without `hvd`, each rank makes its step alone."""
    data = tf.random.stateless_uniform((rows, width), (1, 2))
    weights = [tf.Variable(tf.random.stateless_normal((width, width), (3, k)) / width ** 0.5) for k in range(layers)]
    offsets = [tf.Variable(tf.zeros(width)) for _ in range(layers if biases else 0)]

    @tf.function
    def take():
        with tf.GradientTape() as tape:
            value = data
            for k in range(layers):
                value = tf.tanh(tf.matmul(value, weights[k]) + (offsets[k] if biases else 0.0))
            loss = tf.reduce_mean(value)
        if hvd:
            tape = hvd.DistributedGradientTape(tape)
        for variable, gradient in zip(weights + offsets, tape.gradient(loss, weights + offsets)):
            variable.assign_sub(1e-3 * gradient)

    return take


def fit(hvd):
    """The steps of an epoch of Keras's fit()."""
    images = numpy.random.default_rng(0).random((32 * FIT_STEPS, 784), "f4")
    labels = numpy.arange(len(images)) % 10
    model = tf.keras.Sequential([tf.keras.Input((784,)), tf.keras.layers.Dense(256, activation="relu"),
                                 tf.keras.layers.Dense(256, activation="relu"), tf.keras.layers.Dense(10)])
    optimizer = tf.keras.optimizers.Adam(1e-3)
    model.compile(optimizer=hvd.DistributedOptimizer(optimizer) if hvd else optimizer,
                  loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return lambda: model.fit(images, labels, batch_size=32, epochs=1, verbose=0, shuffle=False)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("library", choices=["anello", "horovod"])
    parser.add_argument("--only", default="", help="a list of names, such as eager-1K,fit (all)")
    parser.add_argument("--seconds", type=float, default=1, help="time of each measurement (1)")
    arguments = parser.parse_args()
    hvd = importlib.import_module(f"{arguments.library}.tensorflow")
    keras = importlib.import_module(f"{arguments.library}.tensorflow.keras")
    hvd.init()
    small, large = (61, 32, 32, True), (3, 2048, 128, False)
    cases = {"eager-1K": lambda: {"": eager(hvd)},
             "function-4M": lambda: {"": function(hvd, 1, 1 << 20)},
             "function-64x1K": lambda: {"": function(hvd, 64, 256)},
             "step-122": lambda: {"": step(hvd, *small), "-alone": step(None, *small)},
             "step-12.6M": lambda: {"": step(hvd, *large), "-alone": step(None, *large)},
             "fit": lambda: {"": fit(keras), "-alone": fit(None)}}
    for case in arguments.only.split(",") if arguments.only else cases:
        for kind, microseconds in measure(hvd, cases[case](), arguments.seconds).items():
            if hvd.rank() == 0:
                print(f"{case + kind:20} {microseconds / (FIT_STEPS if case == 'fit' else 1):12.1f}", flush=True)


def measure(hvd, cases, seconds):
    """Returns the microseconds of each case. The cases take turns, because the machine's speed changes."""
    for _ in range(WARMUP):
        least = sum(timed(call) for call in cases.values())
    rounds = int(min(max(seconds * 1e6 / float(slowest(hvd, [least])[0]), FEWEST), MOST))
    times = {name: [] for name in cases}
    for _ in range(rounds):
        for name, call in cases.items():
            times[name].append(timed(call))
    return {name: float(numpy.median(slowest(hvd, each))) for name, each in times.items()}


def timed(call):
    start = time.perf_counter()
    call()
    return (time.perf_counter() - start) * 1e6


def slowest(hvd, values):
    return hvd.allreduce(tf.constant(values, tf.float64), op=hvd.Max).numpy()


main()
