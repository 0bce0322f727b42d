"""Keeps torch.compile out of the methods of a group."""
from __future__ import annotations

import torch


def called_as_is(group: type) -> type:
    """Keeps torch.compile out of a class's methods.

    torch's C++ code also calls them during the compiled forward pass of DistributedDataParallel. There torch.compile
    would take their code for a part of the model, and a group for an object of torch's own without further attributes.
    """
    if hasattr(getattr(torch, "compiler", None), "disable"):  # available since torch 2.1
        for name, method in list(vars(group).items()):
            if callable(method) and not name.startswith("_"):
                setattr(group, name, torch.compiler.disable(method))
    return group
