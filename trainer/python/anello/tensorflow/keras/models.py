"""Loads models whose optimizer becomes a distributed optimizer."""
from __future__ import annotations

from typing import Any, Mapping, Optional, Sequence, Type

import tensorflow as tf

from ...horovod.user_warning import warn
from ..compression import Compression
from .keras3 import XLA_IS_OFF
from .optimizer import DistributedOptimizer


def load_model(filepath: Any, custom_optimizers: Optional[Sequence[Type[Any]]] = None,
               custom_objects: Optional[Mapping[str, Any]] = None, compression: Any = Compression.none,
               legacy_opts: bool = False) -> Any:
    """Does the same as tf.keras.models.load_model(). The optimizer has its saved state, and is a DistributedOptimizer.

    Args:
        custom_optimizers: optimizer classes that are not in Keras.
        custom_objects: other classes and functions, by name.
        legacy_opts: accepted and not needed.
    """
    objects = {each.__name__: each for each in custom_optimizers or ()}
    model = tf.keras.models.load_model(filepath, custom_objects={**objects, **(custom_objects or {})})
    if getattr(model, "optimizer", None) is not None:
        DistributedOptimizer(model.optimizer, compression=compression)
        turn_xla_off(model)
    return model


def turn_xla_off(model: Any) -> None:
    """Turns XLA off. Keras may have turned it on when it compiled or loaded the model on a machine with a GPU."""
    if model.jit_compile:
        warn(XLA_IS_OFF)
        model.jit_compile = False
