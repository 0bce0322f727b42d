"""TensorFlow gives equal constants the same memory: writing to one constant would change all of them."""
import pytest
import tensorflow


def test_constants_that_are_made_later_are_right(world):
    before = tensorflow.identity(tensorflow.constant(3.0))
    for call in (lambda: world.allreduce(tensorflow.constant(3.0)), lambda: world.broadcast(tensorflow.constant(3.0)),
                 lambda: world.allreduce([tensorflow.constant(3.0)])):
        with pytest.raises(ValueError, match="out="):
            call()
    assert float(tensorflow.constant(3.0)) == 3 and float(before) == 3
