"""Whether the models of all ranks have the same parameters: a rank would wait for ever for one that only it has."""
from __future__ import annotations

import zlib
from typing import Iterable, Sequence, Tuple

import torch

from ..errors import Mismatch
from .process_sets import ProcessSet


def names_number(names: Iterable[str]) -> int:
    """A number of 32 bits for some names, whatever their order."""
    return zlib.crc32("\n".join(sorted(map(str, names))).encode())


def require_same_names(named: Sequence[Tuple[str, torch.Tensor]], process_set: ProcessSet) -> None:
    """Mismatch on all ranks, with two of them, if their parameters have different names. All ranks call; blocks.

    Shapes are not compared: an operation does that, and names the parameter.
    """
    elements = sum(each.numel() for _, each in named)
    mine = torch.tensor([[names_number(name for name, _ in named), len(named), elements]])
    gathered = process_set.agenda.allgather([mine], name="names of the parameters", waits=True)
    first, *others = gathered.wait()[0].tolist()
    for rank, other in zip(process_set.ranks[1:], others):
        if other[:2] != first[:2]:
            names = " with other names" if other[1] == first[1] else ""
            raise Mismatch(f"the models of the ranks differ: rank {process_set.ranks[0]} has {first[1]} parameters "
                           f"({first[2]} elements), rank {rank} has {other[1]} ({other[2]} elements){names}; make the "
                           "same model on all ranks", "mismatch", rank)
