"""The examples with TensorFlow and Keras, on all ranks of a world."""
import importlib
import pathlib
import re
import sys

import pytest

import anello.tensorflow.keras as hvd
from keras_models import are_equal_on_all_ranks

pytestmark = pytest.mark.usefixtures("horovod_for_tensorflow")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "trainer" / "examples"))


@pytest.mark.parametrize("name, argument", [
    ("tensorflow_digits", "model.keras"), ("keras_digits", "model.keras"), ("keras_data", "dataset"),
    ("keras_data", "files"), ("keras_parallelize", "model.weights.h5")])
def test_an_example_trains_one_model_on_all_ranks(name, argument, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    trained = importlib.import_module(name).main(argument)
    assert are_equal_on_all_ranks(trained.get_weights())
    losses = [float(each) for each in re.findall(rf"loss ([\d.]+) on {hvd.size()} ranks", capsys.readouterr().out)]
    if hvd.rank() == 0:
        assert len(losses) >= 5 and losses[-1] < losses[0] / 2
    else:
        assert not losses
    written = [each.name for each in tmp_path.iterdir()]
    assert written == ([argument] if "." in argument and hvd.rank() == 0 else [])
