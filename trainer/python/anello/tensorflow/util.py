"""The names that scripts import from Horovod's module `util`."""
import tensorflow as tf


def _executing_eagerly() -> bool:
    """False while a graph is made."""
    return tf.executing_eagerly()
