"""The elastic states of anello.tensorflow.keras, for scripts that import this module."""
from ..tensorflow.keras.elastic import *  # noqa: F403
