"""What scripts do wrong with anello.tensorflow: an error names it, on all ranks, and the world goes on."""
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
