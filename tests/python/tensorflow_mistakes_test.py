"""Mistakes of scripts with anello.tensorflow: an error names them, on all ranks, and the world goes on."""
import numpy
import pytest
import tensorflow as tf

import anello.tensorflow as hvd
from anello.tensorflow.errors import MismatchError
from anello.tensorflow.gradients import Gradients

pytestmark = pytest.mark.usefixtures("horovod_for_tensorflow")


@pytest.fixture(autouse=True)
def the_world_goes_on():
    yield
    assert float(hvd.allreduce(1.0, op=hvd.Sum)) == hvd.size()


def test_gradients_of_different_variables_are_not_added_up():
    """Each rank has the gradient of one variable. On that rank, the gradients of the other variables are None."""
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


@pytest.mark.parametrize("name, kind, reason", [(5, TypeError, "name must be a string, not 5"),
                                                (["loss"], TypeError, "name must be a string, not .'loss'."),
                                                ("loss\0", ValueError, "name must not contain a zero byte")])
def test_names_are_texts_without_zero_bytes(name, kind, reason):
    with pytest.raises(kind, match=reason):
        hvd.allreduce(1.0, name=name)


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


ONE = tf.ones(2)
SLICES = tf.IndexedSlices(tf.ones([1, 2]), [0], [8, 2])


class Broken(hvd.Compression.none):
    """A compressor of the program's own that fails."""

    @classmethod
    def compress(cls, tensor):
        raise RuntimeError("it is broken")


@pytest.mark.parametrize("name", [None, "named"])
@pytest.mark.parametrize("right, wrong, reason", [
    (lambda **its: hvd.allreduce(ONE, **its), lambda **its: hvd.allreduce(ONE, op=77, **its), "not 77"),
    (lambda **its: hvd.allreduce(ONE, **its), lambda **its: hvd.allreduce(object(), **its), "object"),
    (lambda **its: hvd.allreduce(ONE, **its), lambda **its: hvd.allreduce(ONE, compression=Broken, **its), "is broken"),
    (lambda **its: hvd.grouped_allreduce([ONE, ONE], **its), lambda **its: hvd.grouped_allreduce(None, **its), "None"),
    (lambda **its: hvd.allreduce(SLICES, **its), lambda **its: hvd.allreduce(SLICES, op=hvd.Min, **its), "factors"),
    (lambda **its: hvd.grouped_allreduce([ONE, SLICES], **its),
     lambda **its: hvd.grouped_allreduce([object(), SLICES], **its), "object"),
    (lambda **its: hvd.allgather(ONE, **its), lambda **its: hvd.allgather(tf.SparseTensor([[0]], [1.0], [2]), **its),
     "to_dense"),
    (lambda **its: hvd.broadcast(ONE, 0, **its), lambda **its: hvd.broadcast(object(), 0, **its), "object"),
    (lambda **its: hvd.alltoall(tf.ones(hvd.size()), **its),
     lambda **its: hvd.alltoall(tf.ones(hvd.size()), splits=["one"], **its),
     "not supported"),
    (lambda **its: hvd.reducescatter(ONE, **its), lambda **its: hvd.reducescatter(ONE, op=hvd.Min, **its), "Min")])
def test_what_one_rank_cannot_prepare_fails_on_the_others(right, wrong, reason, name):
    if hvd.rank() == 1:
        with pytest.raises(Exception, match=reason):
            wrong(name=name)
    else:
        with pytest.raises(MismatchError, match=f"rank 1 cannot take part: .*{reason}"):
            right(name=name)


def test_variables_that_one_rank_does_not_have_fail_on_the_others():
    if hvd.rank() == 1:
        with pytest.raises(TypeError, match="model.variables"):
            hvd.broadcast_variables([1], root_rank=0)
    else:
        with pytest.raises(tf.errors.FailedPreconditionError, match="rank 1 cannot take part: .*model.variables"):
            hvd.broadcast_variables([tf.Variable(1.0)], root_rank=0)


def test_gradients_after_a_refused_one_are_those_of_the_next_step():
    variables = [tf.Variable(1.0) for _ in range(3)]
    training = Gradients(op=hvd.Sum, groups=3)
    last_step = [tf.constant(100.0)] * 3
    if hvd.rank() == 1:
        with pytest.raises(TypeError, match="complex64"):
            training.combine([last_step[0], tf.constant(1j, tf.complex64), last_step[2]], variables)
    else:
        with pytest.raises(MismatchError, match="rank 1 cannot take part: .*complex64"):
            training.combine(last_step, variables)
    assert [float(each) for each in training.combine([tf.constant(1.0)] * 3, variables)] == [hvd.size()] * 3
