"""Checks whether all ranks begin a training with the same values, or the script has forgotten to broadcast them."""
from __future__ import annotations

import array
import contextlib
import zlib
from typing import Any, Dict, Optional, Sequence, Tuple

import numpy
import tensorflow as tf

from ..errors import Error
from ..horovod import process_sets
from ..horovod.process_sets import ProcessSet, global_process_set
from ..horovod.user_warning import warn
from .variables import of_tensorflow

_CALL = 2  # variables are compared in their second call, because a script may broadcast them after the first call
_LIMIT = 2**32
# Maximum number of lists with the same first variable that are counted. A loop may pass new lists forever.
_MAX_KEYS = 16


def first_difference(variables: Sequence[Any], process_set: ProcessSet) -> Optional[int]:
    """The index of the first variable whose values differ between ranks. All ranks call it; blocks."""
    values = (tf.convert_to_tensor(of_tensorflow(each)).numpy() for each in variables)
    numbers = [zlib.crc32(numpy.ravel(each).view(numpy.uint8)) for each in values]
    # The allreduce takes the maxima of the numbers and of their complements. If a number differs between ranks, its two
    # maxima do not add up to _LIMIT. A rank that has joined contributes the lowest int.
    sent = array.array("q", [*numbers, *(_LIMIT - each for each in numbers)])
    process_set.agenda.allreduce([sent], op="max", name="values of the variables", waits=True).wait()
    count = len(numbers)
    return next((k for k in range(count) if sent[k] + sent[count + k] != _LIMIT), None)


class _Worlds:
    """Counts worlds. In a new world some ranks may be new, so all variables are compared again."""

    def __init__(self) -> None:
        self.number = 0

    def added(self, process_set: ProcessSet, world: Any) -> None:
        self.number += process_set is global_process_set

    def removed(self, process_set: ProcessSet) -> None:
        pass


_worlds = _Worlds()
process_sets.watch(_worlds)


def compare(sources: Sequence[Any], process_set: ProcessSet) -> None:
    """Compares the variables' values between the ranks. If values differ, rank 0 warns.

    In each world, only the second eager call for the same variables compares them. All ranks call it, and the
    comparison blocks. In a tf.function this function does nothing: its operations would become a part of the program's
    graph, which could then not be saved.
    """
    if not tf.executing_eagerly() or not process_set.included() or process_set.size() == 1:
        return
    variables = [each for each in sources if isinstance(of_tensorflow(each), tf.Variable)]
    if variables and _count(variables) == _CALL:
        _warn_if_different(variables, process_set)


def _count(variables: Sequence[Any]) -> int:
    """The number of this call for these variables in this world.

    The count lasts as long as the first of the variables lives.
    """
    calls: Dict[Tuple[int, ...], int] = vars(of_tensorflow(variables[0])).setdefault("_anello_calls", {})
    key = (_worlds.number, *map(id, variables))
    if key not in calls and len(calls) >= _MAX_KEYS:
        return 0
    calls[key] = calls.get(key, 0) + 1
    return calls[key]


def _warn_if_different(variables: Sequence[Any], process_set: ProcessSet) -> None:
    different: Optional[int] = None
    with contextlib.suppress(Error):  # the operations for the gradients, which follow, raise the same error
        different = first_difference(variables, process_set)
    if different is not None and process_set.rank() == 0:
        variable = variables[different]
        warn(f"the ranks train different variables; the first that differs is "
             f"'{getattr(variable, 'path', variable.name)}': call hvd.broadcast_variables(model.variables, "
             "root_rank=0) before the first step, or after it")
