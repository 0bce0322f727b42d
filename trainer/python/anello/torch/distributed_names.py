"""The names of a group's methods in different versions of torch."""
from __future__ import annotations

from typing import Any, Dict, Tuple

import torch.distributed as dist

# The former names of methods, which older versions of torch call. A method itself has its newest name.
FORMER_NAMES: Dict[str, Tuple[str, ...]] = {
    "all_gather_single": ("_allgather_base",),
    "all_gather_single_coalesced": ("allgather_into_tensor_coalesced",),
    "all_to_all_single": ("alltoall_base",),
    "gather_single": ("gather_into_tensor",),
    "get_backend": ("_get_backend",),
    "reduce_scatter_single": ("_reduce_scatter_base",),
    "reduce_scatter_single_coalesced": ("reduce_scatter_tensor_coalesced",),
    "set_timeout": ("_set_default_timeout",),
}

# Methods that torch calls, but that this backend does not have, with the remedy for each.
REFUSED: Dict[str, str] = {
    "_end_coalescing": "call _coalescing_manager() without device=",
    "_end_time_estimate": "measure the collective",
    "_group_end": "call the verbs one after the other",
    "_group_start": "call the verbs one after the other",
    "_start_coalescing": "call _coalescing_manager() without device=",
    "_start_time_estimate": "measure the collective",
    "abort": "end this rank's script by an exception, which ends the other ranks' scripts too",
    "get_reconfigure_handle": "make a new group",
    "merge_remote_group": "make a new group",
    "new_window": "use send and recv",
    "reconfigure": "make a new group",
    "shrink": "make a new group of the ranks that stay",
}

# Before 2.1, torch calls these methods before and after every batch of transfers. They need not do anything.
AROUND_BATCHES: Tuple[str, ...] = ("_end_coalescing", "_start_coalescing")
if hasattr(dist.distributed_c10d, "_CoalescingManager"):
    AROUND_BATCHES = ()
for _each in AROUND_BATCHES:
    del REFUSED[_each]


def _nothing(self: Any, *_: Any) -> None:
    pass


def _refusal(name: str, remedy: str) -> Any:
    def refuse(self: Any, *_: Any, **__: Any) -> Any:
        raise NotImplementedError(f"the backend 'anello' has no {name}(): {remedy}")
    return refuse


def under_all_names(group: type) -> type:
    """Adds to a class the former names of its methods, and the methods that are refused or do nothing."""
    for name, former in FORMER_NAMES.items():
        for each in former:
            setattr(group, each, getattr(group, name))
    for name, remedy in REFUSED.items():
        setattr(group, name, _refusal(name, remedy))
    for name in AROUND_BATCHES:
        setattr(group, name, _nothing)
    return group
