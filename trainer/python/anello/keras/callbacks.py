"""The callbacks of anello.tensorflow.keras, for scripts that import this module."""
from ..tensorflow.keras.callbacks import *  # noqa: F403
