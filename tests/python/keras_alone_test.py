"""A script with parallelize() that is started without a launcher."""
import tensorflow as tf

import anello.tensorflow.keras as hvd
from keras_models import are_close, batches, fit, mine, model, sgd


def test_one_process_trains_as_it_does_without_the_call(tmp_path):
    def falling():
        return sgd(tf.keras.optimizers.schedules.ExponentialDecay(0.1, 10, 0.9))

    job = hvd.parallelize(model(), falling())
    assert (job.rank, job.size) == (0, 1)
    ours = fit(job.optimizer, mine(), trained=job.model, callbacks=job.callbacks(str(tmp_path / "model.keras")))
    assert are_close(ours, fit(falling(), mine()), 0)
    assert are_close(tf.keras.models.load_model(tmp_path / "model.keras").get_weights(), ours, 0)
    assert job.shard(batches()[0]).shape == batches()[0].shape
    hvd.shutdown()
