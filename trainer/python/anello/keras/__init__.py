"""Horovod's older module for Keras: `import anello.keras as hvd`. It is anello.tensorflow.keras."""
from ..tensorflow.keras import *  # noqa: F403
from ..tensorflow.keras import __all__  # noqa: F401
from . import callbacks, elastic  # type: ignore[no-redef]  # noqa: F401
