"""The library of operations: `ops` has the operations as functions of TensorFlow. Passes all process sets to the
library."""
from __future__ import annotations

import ctypes
import itertools
import pathlib
from typing import Any, Tuple

import tensorflow as tf

from ..horovod import process_sets
from ..horovod.process_sets import ProcessSet, global_process_set, require_set, set_with_number

_FILE = pathlib.Path(__file__).parent.parent / "libanello_tensorflow.so"


def _load() -> Tuple[Any, Any]:
    """Lets TensorFlow load the file first: TensorFlow collects only ops that are registered while it loads a file."""
    try:
        registered = tf.load_op_library(str(_FILE))
        functions = ctypes.CDLL(str(_FILE))
    except (OSError, tf.errors.OpError) as why:
        raise ImportError(f"anello.tensorflow cannot load its operations into TensorFlow {tf.__version__}: "
                          f"{why}") from None
    functions.anello_tensorflow_failure.restype = ctypes.c_char_p
    failure = functions.anello_tensorflow_failure()
    if failure:
        raise ImportError(f"anello.tensorflow does not run with TensorFlow {tf.__version__}: {failure.decode()}; "
                          "install TensorFlow 2.13 or newer")
    return registered, functions


class _Sets:
    """Passes the agendas of the process sets to the library."""

    def added(self, process_set: ProcessSet, world: Any) -> None:
        if process_set is global_process_set:
            _functions.anello_tensorflow_begin_world(world.rank, world.size, world.local_rank, world.local_size)
        members = (ctypes.c_int * len(process_set.ranks))(*process_set.ranks)
        agenda = process_set.unrestricted_agenda.handle if process_set.included() else None
        _functions.anello_tensorflow_add_process_set(process_set.number, ctypes.c_void_p(agenda), len(members), members)

    def removed(self, process_set: ProcessSet) -> None:
        if process_set is global_process_set:
            _functions.anello_tensorflow_end_world()
        else:
            _functions.anello_tensorflow_remove_process_set(process_set.number)


def number(process_set: ProcessSet) -> int:
    """The number of a set. ValueError if it is not registered, TypeError if the object is not a set."""
    require_set(process_set).included()
    assert process_set.number is not None
    if set_with_number(process_set.number) is not process_set:
        raise ValueError(f"{process_set} is not registered")
    return process_set.number


ops, _functions = _load()
# The types that an operation accepts.
types = frozenset(map(tf.as_dtype, itertools.takewhile(bool, map(_functions.anello_tensorflow_type, itertools.count()))))
take_failure = _functions.anello_tensorflow_take_failure
# Calls by PyDLL keep Python's global lock, and raise the exception that the called function has set.
_with_lock = ctypes.PyDLL(str(_FILE))
raise_interruption = _with_lock.anello_tensorflow_raise_interruption
forget_failure = _with_lock.anello_tensorflow_forget_failure
raise_interruption.restype = forget_failure.restype = None
process_sets.watch(_Sets())
