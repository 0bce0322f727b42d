"""The variables of a training, which must be the same on all ranks when it begins."""
from __future__ import annotations

from typing import Any, List, Sequence

import tensorflow as tf

from ...horovod.process_sets import global_process_set
from ..gradients import key
from ..same_model import require_same
from ..variables import broadcast_variables, of_tensorflow


def of_optimizer(optimizer: Any) -> List[Any]:
    """With the learning rate, which tf-keras does not count among an optimizer's variables."""
    variables = optimizer.variables
    found = list(variables() if callable(variables) else variables)
    rate = getattr(optimizer, "_learning_rate", None)
    is_missing = isinstance(of_tensorflow(rate), tf.Variable) and key(rate) not in {key(each) for each in found}
    return [*found, rate] if is_missing else found


def give_all_ranks(variables: Sequence[Any], root_rank: int) -> None:
    """Gives all ranks the root's values. All call; blocks. Mismatch on all ranks if they have other variables."""
    require_same(variables, global_process_set)
    broadcast_variables(variables, root_rank)
