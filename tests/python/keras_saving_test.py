"""Models with a DistributedOptimizer are saved like other models, and can be loaded with or without a
DistributedOptimizer."""
import json
import zipfile

import numpy
import pytest
import tensorflow as tf

import anello.tensorflow.keras as hvd
from keras_models import (IS_KERAS_3, are_close, are_equal_on_all_ranks, batches, fit, mine, model, operations_of, sgd,
                          variables)

pytestmark = pytest.mark.usefixtures("horovod_for_tensorflow")


def saved(tmp_path, optimizer):
    trained = model()
    fit(optimizer, mine(), trained=trained)
    trained.save(tmp_path / "model.keras")
    return trained


def in_file(tmp_path):
    with zipfile.ZipFile(tmp_path / "model.keras") as file:
        return json.loads(file.read("config.json"))["compile_config"]["optimizer"]


def test_a_file_names_the_class_that_keras_has(tmp_path):
    saved(tmp_path, hvd.DistributedOptimizer(tf.keras.optimizers.Adam()))
    described = in_file(tmp_path)
    saved(tmp_path, tf.keras.optimizers.Adam())
    plain = in_file(tmp_path)
    assert (described["module"], described["class_name"]) == (plain["module"], plain["class_name"])
    assert described["class_name"] == "Adam" and "anello" not in json.dumps(described)


def test_it_is_loaded_without_anello_and_with_its_state(tmp_path):
    trained = saved(tmp_path, hvd.DistributedOptimizer(sgd()))
    loaded = tf.keras.models.load_model(tmp_path / "model.keras")
    assert type(loaded.optimizer) is tf.keras.optimizers.SGD
    assert are_close(loaded.get_weights(), trained.get_weights(), 0)
    assert are_close(variables(loaded.optimizer), variables(trained.optimizer), 0)


def test_load_model_makes_the_optimizer_one_of_all_ranks(tmp_path):
    trained = saved(tmp_path, hvd.DistributedOptimizer(sgd()))
    loaded = hvd.load_model(tmp_path / "model.keras")
    assert are_close(variables(loaded.optimizer), variables(trained.optimizer), 0)
    loaded.fit(*batches(mine()), verbose=0)
    assert are_equal_on_all_ranks(loaded.get_weights())


def test_load_model_takes_a_compression(tmp_path):
    saved(tmp_path, sgd())
    loaded = hvd.load_model(tmp_path / "model.keras", compression=hvd.Compression.bf16)
    assert [each.get_attr("wire") for each in operations_of(loaded.optimizer, loaded.layers)] == [b"bf16"]


def test_load_model_takes_layers_of_the_program(tmp_path):
    class Mine(tf.keras.layers.Dense):
        pass

    tf.keras.Sequential([tf.keras.layers.InputLayer((5,)), Mine(2)]).save(tmp_path / "model.keras")
    loaded = hvd.load_model(tmp_path / "model.keras", custom_objects={"Mine": Mine})
    assert isinstance(loaded.layers[-1], Mine)


@pytest.mark.skipif(not IS_KERAS_3, reason="Keras 2 does not choose XLA by itself")
def test_a_loaded_model_is_not_compiled_by_xla(tmp_path, monkeypatch):
    class Gpu:
        device_type = "GPU"

    monkeypatch.setattr(tf.config, "list_physical_devices", lambda *_: [Gpu()])
    plain = model()
    plain.compile(optimizer=sgd(), loss="mse")
    plain.save(tmp_path / "model.keras")
    assert tf.keras.models.load_model(tmp_path / "model.keras").jit_compile
    assert not hvd.load_model(tmp_path / "model.keras").jit_compile


def test_load_model_takes_a_model_without_an_optimizer(tmp_path):
    model().save(tmp_path / "model.keras")
    assert are_close(hvd.load_model(tmp_path / "model.keras").get_weights(), model().get_weights(), 0)


def test_load_model_takes_optimizers_of_the_program(tmp_path):
    class Mine(tf.keras.optimizers.SGD):
        pass

    saved(tmp_path, hvd.DistributedOptimizer(Mine(0.1)))
    loaded = hvd.load_model(tmp_path / "model.keras", custom_optimizers=[Mine])
    assert isinstance(loaded.optimizer, Mine) and hasattr(loaded.optimizer, "register_local_var")


def test_a_registered_optimizer_keeps_its_name(tmp_path):
    @tf.keras.utils.register_keras_serializable("shop", "Registered")
    class Mine(tf.keras.optimizers.SGD):
        pass

    saved(tmp_path, hvd.DistributedOptimizer(Mine(0.1)))
    assert in_file(tmp_path)["registered_name"] == "shop>Registered"
    assert type(tf.keras.models.load_model(tmp_path / "model.keras").optimizer) is Mine


def test_weights_are_saved_and_loaded(tmp_path):
    trained = model()
    fit(hvd.DistributedOptimizer(sgd()), mine(), trained=trained)
    trained.save_weights(tmp_path / "model.weights.h5")
    again = model(1)
    again.load_weights(tmp_path / "model.weights.h5")
    assert are_close(again.get_weights(), trained.get_weights(), 0)


def test_the_optimizer_keeps_its_state_and_is_made_again_from_its_description():
    plain, trained = sgd(), model()
    fit(plain, mine(), trained=trained)
    before = variables(plain)
    made = hvd.DistributedOptimizer(plain)
    assert made is plain and are_close(variables(made), before, 0)
    again = made.from_config(made.get_config())
    assert again.get_config() == made.get_config() and type(again) is type(made)
    trained.compile(optimizer=again, loss="mse")
    x = numpy.full((4, 5), 1.0 + hvd.rank(), "f4")
    start = model().get_weights()
    trained.set_weights(start)
    trained.train_on_batch(x, numpy.ones((4, 2), "f4"))
    assert are_equal_on_all_ranks(trained.get_weights()) and not are_close(trained.get_weights(), start)


def test_checkpoints_of_tensorflow_have_the_variables_of_keras(tmp_path):
    """Checkpoints contain neither sums of gradients nor counters of passes."""
    def names(optimizer):
        fit(optimizer, mine())
        path = tf.train.Checkpoint(optimizer=optimizer).save(str(tmp_path / "checkpoint"))
        return sorted(name for name, _ in tf.train.list_variables(path) if "OBJECT_GRAPH" not in name)

    assert names(hvd.DistributedOptimizer(sgd(), backward_passes_per_step=2)) == names(sgd())
