"""Digits with compile() and fit() of Keras, and Horovod's callbacks: anello run -n 2 -- python3 keras_digits.py"""
import sys

import numpy as np
import tensorflow as tf

import anello
import anello.tensorflow.keras as hvd
import digits


def share_of(rows):
    """The pixels and labels of this rank, equally many on all ranks."""
    mine = anello.shard(np.array(rows), hvd.rank(), hvd.size(), uneven="drop")
    return mine[:, :64].astype("f4") / 16, mine[:, 64]


def main(checkpoint=None, epochs=5, batch=16, rate=0.05):
    hvd.init()
    gpus = tf.config.list_physical_devices("GPU")
    if gpus:
        tf.config.set_visible_devices(gpus[hvd.local_rank()], "GPU")
    train, test = digits.split(digits.rows())

    model = tf.keras.Sequential([tf.keras.Input((64,)), tf.keras.layers.Dense(128, activation="relu"),
                                 tf.keras.layers.Dense(10)])
    optimizer = hvd.DistributedOptimizer(tf.keras.optimizers.SGD(rate * hvd.size(), momentum=0.9))
    model.compile(optimizer=optimizer, loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                  metrics=["accuracy"])
    callbacks = [hvd.callbacks.BroadcastGlobalVariablesCallback(0), hvd.callbacks.MetricAverageCallback(),
                 hvd.callbacks.LearningRateWarmupCallback(rate * hvd.size(), warmup_epochs=2)]
    if checkpoint and hvd.rank() == 0:
        callbacks.append(tf.keras.callbacks.ModelCheckpoint(checkpoint))
    history = model.fit(*share_of(train), batch_size=batch, epochs=epochs, callbacks=callbacks, verbose=0).history

    tested = anello.average_metrics(hvd.world(), model.evaluate(*share_of(test), verbose=0, return_dict=True))
    if hvd.rank() == 0:
        for epoch, loss in enumerate(history["loss"]):
            print(f"epoch {epoch + 1}: loss {loss:.3f} on {hvd.size()} ranks")
        print(f"accuracy {tested['accuracy']:.3f}")
    return model


if __name__ == "__main__":
    main(*sys.argv[1:])
