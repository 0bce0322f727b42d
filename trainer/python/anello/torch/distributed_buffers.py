"""Converts tensors of torch.distributed for the engine."""
from __future__ import annotations

from typing import List, Tuple

import torch

from ..readers import require_dense


class Buffers:
    """Contiguous tensors for the engine. If a tensor needed a copy, the result is copied back to it."""

    def __init__(self) -> None:
        self._copies: List[Tuple[torch.Tensor, torch.Tensor]] = []

    def usable(self, tensor: torch.Tensor, written: bool = True) -> torch.Tensor:
        require_dense(tensor)
        require_host(tensor.device)
        made = plain(tensor.detach()).contiguous()
        if written and made.data_ptr() != tensor.data_ptr():
            require_writable(tensor)
            self._copies.append((tensor.detach(), made))
        return made

    def copy_back(self) -> None:
        for tensor, made in self._copies:
            write_plain(tensor, made)


def require_host(device: torch.device) -> None:
    """Raises RuntimeError if a device is not the host: a script may have given such tensors another backend."""
    if device.type != "cpu":
        raise RuntimeError(f"the backend 'anello' is for tensors in host memory, not on {device}: for those make "
                           'another group, for example by new_group(backend="nccl"); of "cpu:anello,cuda:nccl" torch '
                           "takes anello alone")


def is_float8(tensor: torch.Tensor) -> bool:
    return str(tensor.dtype).startswith("torch.float8")


def plain(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor of a type that the engine has: complex numbers get a further dimension of size 2; float8 become bytes.

    Returns a copy if the tensor is conjugated or negated.
    """
    made = tensor.resolve_conj().resolve_neg()
    if is_float8(made):
        return made.view(torch.uint8)
    return torch.view_as_real(made) if made.is_complex() else made


def write_plain(tensor: torch.Tensor, values: torch.Tensor) -> None:
    """Copies into a tensor the values that the engine computed in the form of plain()."""
    typed = torch.view_as_complex(values.view(-1, 2)) if tensor.is_complex() else values.view(tensor.dtype)
    write(tensor, typed.view(tensor.shape))


def write(tensor: torch.Tensor, values: torch.Tensor) -> None:
    """Copies values into a tensor. If the tensor was made in inference mode, torch requires inference mode for the
    copy."""
    with torch.no_grad(), torch.inference_mode(tensor.is_inference()):
        tensor.copy_(values)


def require_writable(tensor: torch.Tensor) -> None:
    """RuntimeError if a tensor cannot take a result of its shape."""
    if torch._debug_has_internal_overlap(tensor) == 1:
        raise RuntimeError("the result does not fit into the tensor: several of its elements lie in one place, as "
                           "expand() makes them: give its clone()")
