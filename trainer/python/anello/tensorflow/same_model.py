"""Whether the ranks have the same variables. They may call them otherwise: Keras counts the layers that a rank has made."""
from __future__ import annotations

from typing import Any, List, Optional, Sequence, Tuple

from ..errors import Mismatch
from ..horovod.process_sets import ProcessSet
from ..horovod.same_model import REMEDY, find_difference


def require_same(variables: Sequence[Any], process_set: ProcessSet, name: Optional[str] = None) -> None:
    """Raises Mismatch on all ranks if they have other numbers, shapes or kinds of variables. All call; blocks.

    Args:
        name: that of the operation. A rank that calls the one of this name that follows, instead of this, gets a
            Mismatch as well, and does not wait for ever.
    """
    try:
        difference = find_difference(_described(variables), process_set, name)
    except Mismatch as error:
        if name is None:
            raise
        raise Mismatch(f"this rank has other variables than in its last step, and not all ranks have: {error}; {REMEDY}",
                       error.code, error.rank) from None
    if difference is not None:
        raise difference


def _described(variables: Sequence[Any]) -> List[Tuple[str, Any]]:
    """Names that do not depend on what else a rank has made, with shapes, so that they are compared."""
    return [(f"{k}: {_last_part(each)} {tuple(each.shape)}", each) for k, each in enumerate(variables)]


def _last_part(variable: Any) -> str:
    return str(variable.name).split("/")[-1].split(":")[0]
