"""Checks that the ranks have the same variables. The variables' names may differ: Keras numbers the layers that a rank
has made."""
from __future__ import annotations

import array
import re
from typing import Any, List, Optional, Sequence, Tuple

from ..errors import Mismatch
from ..horovod.process_sets import ProcessSet
from ..horovod.same_model import REMEDY, explain_difference, names_number


def require_same(variables: Sequence[Any], process_set: ProcessSet, name: Optional[str] = None) -> None:
    """Raises Mismatch on all ranks if the number, shapes or kinds of their variables differ. All ranks call; blocks.

    Args:
        name: other ranks may call an allreduce of this name instead of require_same(): then all ranks get a Mismatch.
    """
    named = _described(variables)
    number = names_number(each for each, _ in named)
    extremes = array.array("q", [number, -number])
    try:
        process_set.agenda.allreduce([extremes], op="max", name=name or "variables", waits=True).wait()
    except Mismatch as error:
        why = f"this rank has other variables than in its last step, and not all ranks have: {error}; {REMEDY}"
        raise _kept_by_tensorflow(Mismatch(why, error.code, error.rank)) from None
    if extremes[0] != -extremes[1]:
        difference = explain_difference(named, process_set, "has")
        raise _kept_by_tensorflow(difference or Mismatch(f"the models of the ranks differ; {REMEDY}", "mismatch"))


def _kept_by_tensorflow(error: Mismatch) -> Mismatch:
    """Keeps TensorFlow from replacing the error by an error of its own while it makes a function."""
    error.ag_pass_through = True  # type: ignore[attr-defined]
    return error


def _described(variables: Sequence[Any]) -> List[Tuple[str, Any]]:
    """The variables, each with a name for the comparison.

    A name contains the shape. It does not contain the numbers that Keras adds, because these depend on the other
    objects that a rank has made.
    """
    return [(f"{k}: {_last_part(each)} {tuple(each.shape)}", each) for k, each in enumerate(variables)]


def _last_part(variable: Any) -> str:
    """A variable's name, without the numbers that Keras adds to names which the program has not given.

    An optimizer's variables have the whole path of a parameter in their name: sequential_2_dense_5_kernel_momentum.
    """
    return re.sub(r"_\d+(?=_|$)", "", str(variable.name).split("/")[-1].split(":")[0])
