"""Tensors of TensorFlow, JAX and PIL, and numpy's own DLPack 1.0."""
import jax.numpy
import ml_dtypes
import numpy
import tensorflow
from PIL import Image

from tensor_kinds import CHANGED, COUNT, INPUT, NUMBER, REFUSED, Kind, fixed, full, of_array


class OnlyDLPack:
    """An object that offers only the DLPack method that numpy exports."""

    def __init__(self, made):
        self.array = made

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)


def foreign_kinds():
    def tensor(value):
        return tensorflow.constant([float(value)] * COUNT)

    def kind(name, outcome, make, dtype="f4", count=COUNT, why="", read=None):
        return Kind(name, outcome, make, dtype, count, read, why)

    bf16 = ml_dtypes.bfloat16
    immutable = "does not state by DLPack that it may be written.*out="
    return [
        kind("tf.constant", INPUT, tensor, why="EagerTensor " + immutable),
        kind("tf.constant without dimensions", INPUT, lambda v: tensorflow.constant(float(v)), count=1, why=immutable),
        kind("tf.constant of float64", INPUT, lambda v: tensorflow.constant([v] * COUNT, tensorflow.float64), "f8",
             why=immutable),
        kind("tf.constant of bfloat16", INPUT, lambda v: tensorflow.constant([v] * COUNT, tensorflow.bfloat16), bf16,
             why=immutable),
        kind("tf.constant of texts", REFUSED, lambda v: tensorflow.constant("a"), why="string cannot be sent"),
        kind("tf.constant of complex", REFUSED, lambda v: tensorflow.constant(1j), why="cannot be sent"),
        kind("tf.Variable", REFUSED, lambda v: tensorflow.Variable([1.0]), why=r"not a tensor: give its .numpy\(\)"),
        kind("tf.RaggedTensor", REFUSED, lambda v: tensorflow.ragged.constant([[1], [2, 3]]), why="not a tensor"),
        kind("tf.SparseTensor", REFUSED, lambda v: tensorflow.sparse.from_dense([1, 0]), why="not a tensor"),
        kind("JAX array", INPUT, lambda v: jax.numpy.full(COUNT, float(v)), why="ArrayImpl " + immutable),
        kind("JAX array without dimensions", INPUT, lambda v: jax.numpy.float32(v), count=1, why=immutable),
        kind("JAX array of complex", REFUSED, lambda v: jax.numpy.full(COUNT, 1j),
             why="complex64 .* cannot be sent; send its real and its imaginary"),
        kind("JAX array of bfloat16", INPUT, lambda v: jax.numpy.full(COUNT, v, "bfloat16"), bf16, why=immutable),
        kind("image", INPUT, lambda v: Image.new("L", (3, 2), v), "u1", why="Image is read-only.*out="),
        kind("array by DLPack", CHANGED, lambda v: OnlyDLPack(full(v)), "f8", read=of_array),
        kind("read-only array by DLPack", INPUT, lambda v: OnlyDLPack(fixed(full(v))), "f8", read=of_array,
             why=immutable),
        kind("array of bfloat16", CHANGED, lambda v: full(v, bf16), bf16),
        kind("bfloat16 of the other byte order", REFUSED,
             lambda v: full(v, bf16).astype(numpy.dtype(bf16).newbyteorder()), why="cannot be sent"),
        kind("scalar of bfloat16", NUMBER, bf16, bf16, count=1),
    ]
