"""The groups of parameters that a program gives, whose gradients travel together."""
from __future__ import annotations

from typing import Iterable, Sequence, Union

import torch

Groups = Union[None, int, Sequence[Sequence[torch.nn.Parameter]]]


def on_one_device(parameters: Iterable[torch.nn.Parameter]) -> bool:
    """Whether they can share one flat tensor."""
    return len({each.device for each in parameters}) == 1
