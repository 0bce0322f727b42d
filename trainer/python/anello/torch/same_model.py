"""Whether the models of all ranks have the same parameters: a rank would wait for ever for one that only it has."""
from __future__ import annotations

import zlib
from typing import Iterable, Optional, Sequence, Tuple

import torch

from ..errors import Mismatch
from .process_sets import ProcessSet

REMEDY = "make the same model on all ranks, and freeze the same parameters"


def names_number(names: Iterable[str]) -> int:
    """A number of 32 bits for some names, whatever their order."""
    return zlib.crc32("\n".join(sorted(map(str, names))).encode())


def find_difference(named: Sequence[Tuple[str, torch.Tensor]], process_set: ProcessSet,
                    has: str = "has") -> Optional[Mismatch]:
    """An error that names two ranks whose parameters have different names, the same on all ranks. All call; blocks.

    Shapes are not compared: an operation does that, and names the parameter.

    Args:
        has: what a rank does with its parameters, for the error.
    """
    elements = sum(each.numel() for _, each in named)
    mine = torch.tensor([[names_number(name for name, _ in named), len(named), elements]])
    gathered = process_set.agenda.allgather([mine], name="names of the parameters", waits=True)
    first, *others = gathered.wait()[0].tolist()
    for rank, other in zip(process_set.ranks[1:], others):
        if other[:2] != first[:2]:
            names = " with other names" if other[1] == first[1] else ""
            return Mismatch(f"the models of the ranks differ: rank {process_set.ranks[0]} {has} {first[1]} parameters "
                            f"({first[2]} elements), rank {rank} {has} {other[1]} ({other[2]} elements){names}; "
                            f"{REMEDY}", "mismatch", rank)
    return None
