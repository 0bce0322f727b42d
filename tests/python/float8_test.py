"""8-bit floats, which NumPy, JAX and TensorFlow have from ml_dtypes, are moved and not reduced."""
import ml_dtypes
import numpy
import pytest

import anello

TYPES = (ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2)


@pytest.mark.parametrize("dtype", TYPES)
def test_arrays_are_moved(world, dtype):
    mine = numpy.full(3, world.rank + 1.5, dtype)
    gathered = world.allgather(mine)
    assert gathered.dtype == dtype
    assert gathered.astype("f4").tolist() == [rank + 1.5 for rank in range(world.size) for _ in range(3)]
    assert world.broadcast(mine, 1) is mine and (mine.astype("f4") == 2.5).all()


@pytest.mark.parametrize("dtype", TYPES)
def test_arrays_are_not_reduced(world, dtype):
    with pytest.raises(anello.InvalidArgument, match="no sum of f8_e[45]m[32]; convert them, for example to f16"):
        world.allreduce(numpy.ones(3, dtype))


@pytest.mark.parametrize("dtype", (ml_dtypes.float8_e4m3fnuz, ml_dtypes.float8_e4m3b11fnuz))
def test_other_formats_are_refused(world, dtype):
    with pytest.raises(TypeError, match="cannot be sent"):
        world.allgather(numpy.ones(3, dtype))
