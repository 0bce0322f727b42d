"""Checks that all ranks have the same parameters: a rank would wait forever for the gradient of a parameter that other
ranks lack."""
from __future__ import annotations

import collections
import json
import math
import zlib
from typing import Any, Iterable, List, Mapping, Optional, Sequence, Tuple

from ..errors import Mismatch
from .process_sets import ProcessSet, require_set

REMEDY = "make the same model on all ranks; freeze, unfreeze, add and replace the same parameters before the same step"
NAMES = "names of the parameters"  # name of the operation in find_difference()
_MANY = 4  # maximum number of names in an error


def names_number(names: Iterable[str]) -> int:
    """A number of 32 bits for some names, independent of their order."""
    return zlib.crc32("\n".join(sorted(map(str, names))).encode())


def find_difference(named: Sequence[Tuple[str, Any]], process_set: ProcessSet) -> Optional[Mismatch]:
    """Returns an error that names two ranks whose parameters have different names, or None. The result is equal on all
    ranks. All ranks call; blocks.

    Does not compare shapes: the later operations do that, and their error names the parameter.
    """
    mine = f"{names_number(name for name, _ in named)} {len(named)}".encode()
    gathered = require_set(process_set).agenda.allgather_bytes(mine, name=NAMES, waits=True)
    if len(set(gathered.wait())) == 1:
        return None
    return explain_difference(named, process_set, "has")


def explain_difference(named: Iterable[Tuple[str, Any]], process_set: ProcessSet, has: str,
                       changed: bool = False) -> Optional[Mismatch]:
    """Returns an error that names the parameters which differ between two ranks, or None. The result is equal on all
    ranks. All ranks call; blocks.

    The error's rank is a rank that differs from the majority; None if there is no majority.

    Args:
        has: describes what a rank does with its parameters, for the error.
        changed: this rank's parameters differ from those of the step before.
    """
    mine = {"shapes": {name: list(each.shape) for name, each in named}, "changed": changed}
    ranks = _gather(mine, process_set)
    kinds = [json.dumps(each, sort_keys=True) for each in ranks]
    (usual, count), *others = collections.Counter(kinds).most_common()
    if not others:
        return None
    one, odd = kinds.index(usual), next(k for k, kind in enumerate(kinds) if kind != usual)
    first, rank = process_set.ranks[one], process_set.ranks[odd]
    why = _describe(first, ranks[one], rank, ranks[odd], has)
    blamed = rank if 2 * count > len(kinds) else None  # without a majority no rank can be blamed
    return Mismatch(f"the models of the ranks differ: {why}; {REMEDY}", "mismatch", blamed)


def _gather(value: Any, process_set: ProcessSet) -> List[Any]:
    gathered = process_set.agenda.allgather_bytes(json.dumps(value).encode(), name="parameters that differ", waits=True)
    return [json.loads(each) for each in gathered.wait()]


def _describe(first: int, ours: Mapping[str, Any], rank: int, theirs: Mapping[str, Any], has: str) -> str:
    shapes, other = ours["shapes"], theirs["shapes"]
    counts = [f"rank {number} {has} {len(each)}{' parameters' if number == first else ''} "
              f"({sum(math.prod(shape) for shape in each.values())} elements)"
              for number, each in ((first, shapes), (rank, other))]
    found = [f"only rank {number} {has} {_listed(set(each) - set(rest))}"
             for number, each, rest in ((first, shapes, other), (rank, other, shapes)) if set(each) - set(rest)]
    found += [f"'{name}' has the shape {tuple(shape)} on rank {first}, {tuple(other[name])} on rank {rank}"
              for name, shape in shapes.items() if shape != other.get(name, shape)][:_MANY]
    if not found:
        has_changed, has_not = (first, rank) if ours["changed"] else (rank, first)
        found = [f"rank {has_changed} has other ones than in the step before, rank {has_not} has not"]
    names = " with other names" if len(shapes) == len(other) and set(shapes) != set(other) else ""
    return f"{', '.join(counts)}{names}; {'; '.join(found)}"


def _listed(names: Iterable[str]) -> str:
    every = sorted(names)
    more = f" and {len(every) - _MANY} more" if len(every) > _MANY else ""
    return ", ".join(f"'{name}'" for name in every[:_MANY]) + more
