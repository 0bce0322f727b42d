"""The operations on values that can be converted to tensors, with the arguments of Horovod's module for Keras."""
from __future__ import annotations

from typing import Any, Optional

import tensorflow as tf

from ...horovod.reductions import Average
from .. import verbs
from ..compression import Compression


def allreduce(value: Any, name: Optional[str] = None, average: Optional[bool] = None, prescale_factor: float = 1.0,
              postscale_factor: float = 1.0, op: Optional[int] = None, compression: Any = Compression.none) -> tf.Tensor:
    """The reduction of a value over all ranks. Blocks outside of graphs.

    Args:
        average: older form of `op`: True for Average, False for Sum.
        op: Average (the default), Sum, Min, Max or Product.
    """
    return verbs.allreduce(value, average, compression=compression, op=op, prescale_factor=prescale_factor,
                           postscale_factor=postscale_factor, name=name)


def allgather(value: Any, name: Optional[str] = None) -> tf.Tensor:
    """The values of all ranks, one after another; their first dimensions may differ. Blocks outside of graphs."""
    return verbs.allgather(value, name)


def broadcast(value: Any, root_rank: int, name: Optional[str] = None) -> tf.Tensor:
    """The root's value. Blocks outside of graphs."""
    return verbs.broadcast(value, root_rank, name)


def reducescatter(value: Any, name: Optional[str] = None, op: int = Average) -> tf.Tensor:
    """This rank's rows of the reduction. Blocks outside of graphs."""
    return verbs.reducescatter(value, op=op, name=name)
