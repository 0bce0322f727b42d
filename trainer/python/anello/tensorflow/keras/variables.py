"""Makes the variables of a training equal on all ranks before the training begins."""
from __future__ import annotations

from typing import Any, Sequence

from ...horovod.process_sets import global_process_set
from ..same_model import require_same
from ..variables import broadcast_variables


def give_all_ranks(variables: Sequence[Any], root_rank: int) -> None:
    """Gives all ranks the root's values. All ranks call; blocks.

    Raises Mismatch on all ranks if the number, shapes or kinds of their variables differ.
    """
    require_same(variables, global_process_set)
    broadcast_variables(variables, root_rank)
