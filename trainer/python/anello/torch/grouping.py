"""The groups of parameters that a program defines. All gradients of a group are sent together."""
from __future__ import annotations

from typing import Iterable, Sequence, Union

import torch

Groups = Union[None, int, Sequence[Sequence[torch.nn.Parameter]]]


def on_one_device(parameters: Iterable[torch.nn.Parameter]) -> bool:
    """True if the parameters' gradients can share one flat tensor."""
    return len({each.device for each in parameters}) == 1
