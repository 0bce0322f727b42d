"""A physics-informed network on many ranks by one call: anello run -n 2 -- python3 keras_parallelize.py

It solves u'' = -pi^2 sin(pi x) with u(-1) = u(1) = 0; the solution is sin(pi x)."""
import math
import sys

import numpy as np
import tensorflow as tf

import anello.tensorflow as hvd


class Residual(tf.keras.Model):
    """The residual of the equation at some points. Training makes it zero."""

    def __init__(self):
        super().__init__()
        self.network = tf.keras.Sequential([tf.keras.layers.Dense(32, activation="tanh"),
                                            tf.keras.layers.Dense(32, activation="tanh"), tf.keras.layers.Dense(1)])

    def solution(self, x):
        return (1 - x * x) * self.network(x)

    def call(self, x):
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape() as inner:
                inner.watch(x)
                u = self.solution(x)
            slope = inner.gradient(u, x)
        return outer.gradient(slope, x) + math.pi**2 * tf.sin(math.pi * x)


def make():
    model = Residual()
    model(tf.zeros([1, 1]))
    model.compile(optimizer=tf.keras.optimizers.Adam(0.002), loss="mse")
    return model


def main(checkpoint=None, epochs=20, batch=16):
    points = np.random.default_rng(0).uniform(-1, 1, [1000, 1]).astype("f4")

    job = hvd.parallelize(make)
    mine = job.shard(points, uneven="drop")
    history = job.model.fit(mine, np.zeros_like(mine), batch_size=batch, epochs=epochs, verbose=0,
                            callbacks=job.callbacks(checkpoint)).history
    if job.rank == 0:
        for epoch, loss in enumerate(history["loss"]):
            print(f"epoch {epoch + 1}: loss {loss:.5f} on {job.size} ranks")
        x = tf.linspace([-1.0], [1.0], 101)
        print(f"largest error {float(tf.reduce_max(tf.abs(job.model.solution(x) - tf.sin(math.pi * x)))):.4f}")
    return job.model


if __name__ == "__main__":
    main(*sys.argv[1:])
