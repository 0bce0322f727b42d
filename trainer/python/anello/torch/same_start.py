"""Checks whether all ranks begin a training with the same parameters, or the script has forgotten to broadcast them."""
from __future__ import annotations

import contextlib
import zlib
from typing import Any, Container, Dict, List, NamedTuple, Optional, Set

import torch

from ..agenda import Operation
from ..errors import Error, Mismatch
from ..horovod.process_sets import ProcessSet
from ..horovod.same_model import REMEDY, explain_difference, names_number
from ..horovod.user_warning import warn

_INTEGERS = {1: torch.int8, 2: torch.int16}  # by the size of an element; a larger element is read as several integers
_HEAD = 3  # the agreement begins with three numbers: one for the names, one for the shapes, one for the order


class Agreed(NamedTuple):
    """The agreement of the ranks: the order of the parameters, and those that have a sparse gradient on any rank."""

    order: List[Any]
    sparse: Set[Any]


class SameStart:
    """Compares the parameters of the ranks by one small operation, before the first gradients are sent.

    If the values differ, it compares them again in the second step, since a script may broadcast between the two steps.
    If they still differ, rank 0 warns. Different models are an error. Ranks that have joined do not count.

    Attributes:
        error: the error if the models differ, or None. After such an error no operation must be sent: operations for
            parameters that only some ranks have would never end.
    """

    def __init__(self, names: Dict[Any, str], process_set: ProcessSet, compares: bool, changed: bool) -> None:
        """`changed`: True if this rank now trains other parameters than in the step before."""
        self._names = names
        self._sorted = sorted(names, key=names.__getitem__)  # the order of `names` may differ between ranks
        self._process_set = process_set
        self._comparisons_left = 2 if compares else 0
        self._changed = changed
        self._operation: Optional[Operation] = None
        self.error: Optional[Mismatch] = None

    def agree(self, name: str, sparse: Container[Any]) -> Agreed:
        """Blocks until all ranks have called it. Raises Mismatch on all ranks if they have different models.

        Args:
            name: the name of the operation.
            sparse: the parameters with a sparse gradient on this rank.
        """
        self._begin(name, sparse)
        return self._end()

    def begin_again(self, name: str) -> None:
        """Starts the second comparison if the first one found different values."""
        if self._comparisons_left > 0:
            self._begin(name, ())

    def end_again(self) -> None:
        """Waits for the second comparison, and warns if the values still differ."""
        if self._operation is not None:
            self._end()

    def explain(self) -> None:
        """Raises an error that describes how the models differ, if they differ. All ranks call it; blocks."""
        with contextlib.suppress(Error):  # a rank that has joined has no names
            self.error = explain_difference([(name, each) for each, name in self._names.items()], self._process_set,
                                            "trains", self._changed)
        if self.error is not None:
            raise self.error

    def _begin(self, name: str, sparse: Container[Any]) -> None:
        shapes = [f"{name} {tuple(each.shape)}" for each, name in self._names.items()]
        order = zlib.crc32("\n".join(self._names.values()).encode())
        head = [names_number(self._names.values()), names_number(shapes), order]
        mine = torch.tensor(head + [int(each in sparse) for each in self._sorted])
        if self._comparisons_left > 0:
            self._comparisons_left -= 1
            mine = torch.cat([mine, *(_sum_of_bits(each) for each in self._sorted)])
        # The allreduce takes the maxima of the numbers and of their negatives. The negated maxima of the negatives are
        # the minima. If ranks differ, maximum and minimum differ.
        self._operation = self._process_set.agenda.allreduce([torch.cat([mine, -mine])], op="max", name=name)

    def _end(self) -> Agreed:
        operation, self._operation = self._operation, None
        assert operation is not None
        try:
            maxima, negative_minima = operation.wait()[0].chunk(2)
        except Mismatch:  # different numbers of parameters, or another operation on some ranks
            self._raise_difference()
        same = (maxima == -negative_minima).tolist()
        if not all(same[:2]):
            self._raise_difference()
        self._changed, count = False, len(self._sorted)
        self._compare_values(same[_HEAD + count:])
        sparse = {each for each, is_sparse in zip(self._sorted, maxima[_HEAD:_HEAD + count].tolist()) if is_sparse}
        return Agreed(list(self._names) if same[2] else self._sorted, sparse)

    def _raise_difference(self) -> None:
        self.explain()
        self.error = Mismatch(f"the models of the ranks differ; {REMEDY}", "mismatch")
        raise self.error

    def _compare_values(self, same_values: List[bool]) -> None:
        if all(same_values):
            self._comparisons_left = 0
        elif self._comparisons_left == 0 and self._process_set.rank() == 0:
            same = dict(zip(self._sorted, same_values))
            first = next(name for each, name in self._names.items() if not same[each])
            warn(f"the ranks train different parameters (the first that differs is '{first}'): call "
                 "hvd.broadcast_parameters(model.state_dict(), root_rank=0) before the first step, and again after "
                 "hvd.join() and for new layers. If they are meant to differ, give DistributedOptimizer "
                 "compare_parameters=False")


def _sum_of_bits(tensor: torch.Tensor) -> torch.Tensor:
    bits = tensor.detach().reshape(-1).view(_INTEGERS.get(tensor.element_size(), torch.int32))
    return bits.sum(dtype=torch.int64).cpu().reshape(1)
