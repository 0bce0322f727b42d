"""Mistakes of scripts with anello.tensorflow: an error names them, on all ranks, and the world goes on."""
import numpy
import pytest
import tensorflow as tf

import anello.tensorflow as hvd

pytestmark = pytest.mark.usefixtures("horovod_for_tensorflow")


@pytest.fixture(autouse=True)
def the_world_goes_on():
    yield
    assert float(hvd.allreduce(1.0, op=hvd.Sum)) == hvd.size()


def test_gradients_of_different_variables_are_not_added_up():
    """Each rank has the gradient of one variable; those of the others are None there."""
    variables = [tf.Variable(1.0) for _ in range(hvd.size())]
    with hvd.DistributedGradientTape(tf.GradientTape()) as tape:
        value = 2.0 * variables[hvd.rank()]
    with pytest.raises(tf.errors.FailedPreconditionError, match=r"shape .*\(0,\)"):
        tape.gradient(value, variables)


def test_a_tape_is_wrapped_once():
    with pytest.raises(ValueError, match="a DistributedGradientTape already"):
        hvd.DistributedGradientTape(hvd.DistributedGradientTape(tf.GradientTape()))
    with pytest.raises(TypeError, match="must be a tf.GradientTape, not Sequential"):
        hvd.DistributedGradientTape(tf.keras.Sequential())


def test_averages_are_not_divided_by_zero():
    with pytest.raises(ValueError, match="gradient_predivide_factor must be above 0, but is 0"):
        hvd.DistributedGradientTape(tf.GradientTape(), gradient_predivide_factor=0.0)


@pytest.mark.parametrize("given, named", [(None, "NoneType"), (tf.keras.Sequential(), "Sequential"),
                                          ([numpy.ones(2)], "ndarray"), ([tf.ones(2)], "EagerTensor")])
def test_variables_are_broadcast_and_nothing_else(given, named):
    with pytest.raises(TypeError, match=f"model.variables.*{named}.*hvd.broadcast"):
        hvd.broadcast_variables(given, root_rank=0)


@pytest.mark.parametrize("given, remedy", [
    (tf.SparseTensor([[0]], [1.0], [2]), "to_dense"), (tf.ragged.constant([[1.0], [2.0, 3.0]]), "to_tensor"),
    (tf.constant(["text"]), "hvd.allgather_object"), (tf.constant([1j]), "cast")])
@pytest.mark.parametrize("verb", [hvd.allreduce, hvd.allgather, lambda tensor: hvd.broadcast(tensor, 0)],
                         ids=["allreduce", "allgather", "broadcast"])
def test_what_cannot_be_sent_has_a_remedy(verb, given, remedy):
    with pytest.raises(TypeError, match=remedy):
        verb(given)


def test_indices_may_be_a_list():
    made = hvd.allreduce(tf.IndexedSlices(tf.ones([1, 2]), [hvd.rank()], [8, 2]))
    assert made.indices.numpy().tolist() == list(range(hvd.size()))
