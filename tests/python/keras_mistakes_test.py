"""Mistakes of scripts with anello.tensorflow.keras: a warning or an error names them."""
import warnings

import pytest

import anello.tensorflow.keras as hvd
from anello import Mismatch
from keras_models import BATCH, are_equal_on_all_ranks, batches, everyone, fit, mine, model, sgd

pytestmark = pytest.mark.usefixtures("horovod_for_tensorflow")


def warned(**options):
    """The warnings of a training in which the ranks' models begin with different weights."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit(hvd.DistributedOptimizer(sgd()), mine(), trained=model(seed=hvd.rank()), **options)
    return [str(each.message) for each in caught if "the ranks train different variables" in str(each.message)]


@pytest.mark.parametrize("options", [{}, {"run_eagerly": True}, {"passes": 6}],
                         ids=["function", "eagerly", "one step"])
def test_rank_0_warns_where_the_broadcast_is_forgotten(options):
    made = warned(epochs=2, **options) if "passes" not in options else warned(**options)
    assert hvd.allgather_object(len(made)) == [1] + [0] * (hvd.size() - 1)
    assert not made or "kernel" in made[0] and "BroadcastGlobalVariablesCallback(0)" in made[0]


def test_nobody_warns_after_a_broadcast():
    assert not warned(callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0)], epochs=2)
    assert not warned(callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0)], passes=6)


def test_an_optimizer_may_be_wrapped_after_a_training():
    trained = model()
    fit(sgd(), everyone(), trained=trained)  # on all ranks alike
    hvd.DistributedOptimizer(trained.optimizer)
    trained.fit(*batches(mine()), batch_size=BATCH * hvd.size(), verbose=0)  # shapes of the function that there is
    assert are_equal_on_all_ranks(trained.get_weights())


def test_a_callback_that_not_all_ranks_have_is_named():
    callback = hvd.callbacks.BroadcastGlobalVariablesCallback(0)
    callback.set_model(model())
    name = f"hvd.callbacks.{type(callback).__name__}"
    with pytest.raises(Mismatch, match=name):
        if hvd.rank() == 0:
            callback.on_train_begin()
        else:
            hvd.allreduce([1.0, 2.0], name=name, op=hvd.Min)
