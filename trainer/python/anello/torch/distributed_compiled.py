"""Keeps torch.compile out of the methods of a group."""
from __future__ import annotations

import torch


def called_as_is(group: type) -> type:
    """Makes torch.compile call a class's methods without compiling them.

    torch's C++ code also calls the methods during the compiled forward pass of DistributedDataParallel. There
    torch.compile would treat the methods' code as a part of the model, and a group as an object of torch's own type,
    without the attributes of this class.
    """
    if hasattr(getattr(torch, "compiler", None), "disable"):  # available since torch 2.1
        for name, method in list(vars(group).items()):
            if callable(method) and not name.startswith("_"):
                setattr(group, name, torch.compiler.disable(method))
    return group
