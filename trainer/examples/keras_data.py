"""Two ways to load data: anello run -n 2 -- python3 keras_data.py dataset (or files)"""
import pathlib
import shutil
import sys
import tempfile

import numpy as np
import tensorflow as tf

import anello
import anello.tensorflow.keras as hvd
import digits


def from_dataset(rows, batch):
    """Every rank reads everything and keeps its share: for small data, or data that is read quickly."""
    mine = anello.shard(tf.data.Dataset.from_tensor_slices(rows), hvd.rank(), hvd.size(), uneven="drop")
    return mine.shuffle(len(mine)).batch(batch)


def from_files(folder, batch):
    """Every rank reads files of its own. This suits large data. Files differ, so ranks agree on the number of steps."""
    paths = anello.shard(sorted(folder.glob("*.npy")), hvd.rank(), hvd.size(), uneven="drop")
    mine = np.concatenate([np.load(path) for path in paths])
    steps = int(hvd.world().min(len(mine) // batch))
    return tf.data.Dataset.from_tensor_slices(mine).shuffle(len(mine)).batch(batch).take(steps)


def write_files(rows, number=12):
    """Rank 0 writes the files that would lie on a cluster's storage."""
    folder = None
    if hvd.rank() == 0:
        folder = pathlib.Path(tempfile.mkdtemp())
        for part, its in enumerate(np.array_split(rows, number)):
            np.save(folder / f"{part:02}.npy", its)
    return hvd.broadcast_object(folder)


def main(way="dataset", epochs=5, batch=16, rate=0.05):
    hvd.init()
    rows = np.array(digits.split(digits.rows())[0])
    folder = write_files(rows) if way == "files" else None
    data = from_files(folder, batch) if way == "files" else from_dataset(rows, batch)
    data = data.map(lambda part: (tf.cast(part[:, :64], tf.float32) / 16, part[:, 64]))

    model = tf.keras.Sequential([tf.keras.Input((64,)), tf.keras.layers.Dense(128, activation="relu"),
                                 tf.keras.layers.Dense(10)])
    model.compile(optimizer=hvd.DistributedOptimizer(tf.keras.optimizers.SGD(rate * hvd.size(), momentum=0.9)),
                  loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    callbacks = [hvd.callbacks.BroadcastGlobalVariablesCallback(0), hvd.callbacks.MetricAverageCallback()]
    losses = model.fit(data, epochs=epochs, shuffle=False, callbacks=callbacks, verbose=0).history["loss"]
    if hvd.rank() == 0:
        for epoch, loss in enumerate(losses):
            print(f"epoch {epoch + 1}: loss {loss:.3f} on {hvd.size()} ranks")
        if folder:
            shutil.rmtree(folder)
    return model


if __name__ == "__main__":
    main(*sys.argv[1:])
