"""Whether all ranks begin a training with the same parameters, or the script has forgotten to broadcast them."""
from __future__ import annotations

import contextlib
from typing import Any, Dict, List, Optional

import torch

from ..agenda import Operation
from ..errors import Error, Mismatch
from .process_sets import ProcessSet
from .same_model import REMEDY, find_difference, names_number
from .user_warning import warn

_INTEGERS = {1: torch.int8, 2: torch.int16}  # by the size of an element; larger ones are read as several


class SameStart:
    """Compares the parameters of the ranks in the first step, by one small operation beside the gradients'.

    If they differ it does so again in the second step, since a script may broadcast between the two, and then rank 0
    warns. If ranks have different models, that is an error. Ranks that have joined do not count.

    Attributes:
        error: that of different models, if there are. Operations of parameters that only some ranks have never end.
    """

    def __init__(self, names: Dict[Any, str], name: str, process_set: ProcessSet, compares: bool) -> None:
        self._names = names
        self._sorted = sorted(names, key=names.__getitem__)  # ranks may have them in another order
        self._name = name
        self._process_set = process_set
        self._comparisons_left = 2 if compares else 0  # also with nothing to train, which is a difference
        self._operation: Optional[Operation] = None
        self.error: Optional[Mismatch] = None

    def begin(self) -> None:
        """Starts a comparison, if one is left."""
        if self._comparisons_left == 0:
            return
        self._comparisons_left -= 1
        names = torch.tensor(names_number(self._names.values()))
        sums = torch.stack([names, *map(_sum_of_bits, self._sorted)])
        # The maxima of the sums, and of the negative sums, which are the minima: where ranks differ, these do.
        self._operation = self._process_set.agenda.allreduce([torch.cat([sums, -sums])], op="max", name=self._name)

    def end(self) -> None:
        """Waits for the comparison. Warns if it was the last one and ranks differ; Mismatch if their models do."""
        operation, self._operation = self._operation, None
        if operation is None:
            return
        same_names, *same_values = self._same(operation)
        if not same_names:
            self.error = self._difference()
            raise self.error
        same = dict(zip(self._sorted, same_values))
        if all(same.values()):
            self._comparisons_left = 0
        elif self._comparisons_left == 0 and self._process_set.rank() == 0:
            first = next(name for each, name in self._names.items() if not same[each])
            warn(f"the ranks train different parameters; the first that differs is '{first}': call "
                 "hvd.broadcast_parameters(model.state_dict(), root_rank=0) before the first step, and again after "
                 "hvd.join(). If they are meant to differ, give DistributedOptimizer compare_parameters=False")

    def _same(self, operation: Operation) -> List[bool]:
        """Whether ranks have the same names, and the same sum of each parameter."""
        try:
            maxima, negative_minima = operation.wait()[0].chunk(2)
        except Mismatch:  # not as many parameters
            return [False]
        return (maxima == -negative_minima).tolist()

    def _difference(self) -> Mismatch:
        named = [(name, each) for each, name in self._names.items()]
        found = None
        with contextlib.suppress(Error):  # a rank that has joined has no names
            found = find_difference(named, self._process_set, "trains")
        return found or Mismatch(f"the models of the ranks differ; {REMEDY}", "mismatch")


def _sum_of_bits(tensor: torch.Tensor) -> torch.Tensor:
    bits = tensor.detach().reshape(-1).view(_INTEGERS.get(tensor.element_size(), torch.int32))
    return bits.sum(dtype=torch.int64).cpu()
