"""The properties of a group that torch asks for: its name, its devices, its timeouts."""
from __future__ import annotations

import time
from datetime import timedelta
from typing import Any, List, Optional

import torch
import torch.distributed as dist

from .distributed_buffers import require_host


class _Placeholder(getattr(dist.distributed_c10d, "C10DBackend", object)):  # type: ignore[misc]
    """Torch's C++ code uses this object as a group's backend. That code may only ask for hooks: operations raise."""

    def getBackendName(self) -> str:
        return "anello"


class Identity(dist.ProcessGroup):
    """A group that is its own backend: torch's C++ class gives a group in Python neither a backend nor a name."""

    supports_abort_hooks = supports_coalescing = supports_reconfigure = supports_shrinking = supports_window = False
    _supports_time_estimate = False
    supports_splitting = True
    _device_types = [torch.device("cpu")]

    def __init__(self, rank: int, size: int, limit: timedelta, store: Any) -> None:
        super().__init__(rank, size)
        self._limit = limit
        self._store = store
        self._name, self._description = "", "undefined"
        self._monitored_barriers = 0
        if hasattr(dist.ProcessGroup, "register_pre_hook"):  # newer versions of torch register hooks through a backend
            self._placeholder = _Placeholder(rank, size)
            self._set_default_backend(dist.ProcessGroup.BackendType.CUSTOM)
            self._register_backend(torch.device("cpu"), dist.ProcessGroup.BackendType.CUSTOM, self._placeholder)

    def getBackendName(self) -> str:
        return "anello"

    def getGroupName(self) -> str:  # called by torch's C++ code
        return self._name

    def getGroupDesc(self) -> str:
        return self._description

    @property
    def group_name(self) -> str:
        return self._name

    @property
    def group_desc(self) -> str:
        return self._description

    def _set_group_name(self, name: str) -> None:
        self._name = name

    def _set_group_desc(self, description: str) -> None:
        self._description = description

    def get_group_store(self) -> Any:
        return self._store

    def get_backend(self, device: Any) -> "Identity":
        """Returns this group. RuntimeError if the device is not the host."""
        require_host(torch.device(device))
        return self

    def set_timeout(self, timeout: timedelta) -> None:
        """Sets the limit of operations that are started from now on."""
        self._limit = timeout

    def eager_connect_single_device(self, device: Any) -> None:
        """Does nothing: the ranks were connected when the world began."""

    def perform_nocolor_split(self, device: Any) -> None:
        """Does nothing. torch calls it on ranks that are not in a new group."""

    def shutdown(self) -> None:
        """Does nothing: other groups may need the world. The world ends with the script or the next
        init_process_group()."""

    def monitored_barrier(self, timeout: Optional[timedelta] = None, wait_all_ranks: bool = False) -> None:
        """Blocks until all ranks have called it.

        Raises RuntimeError on all ranks if a rank has not called it within `timeout` (the group's by default) after
        rank 0. The error names the first such rank, or all such ranks with `wait_all_ranks`. As with Gloo, the other
        ranks wait for rank 0 at least as long as the group's limit: rank 0 may come late, and then itself waits for the
        others. The ranks meet in torch's store, so that a missing rank disturbs no operation.
        """
        limit = self._limit if timeout is None else timeout
        self._monitored_barriers += 1
        prefix = f"anello/monitored_barrier/{self._monitored_barriers}"
        if self.rank() == 0:
            self._store.set(f"{prefix}/late", self._late(prefix, limit, wait_all_ranks))
        else:
            self._store.set(f"{prefix}/{self.rank()}", "here")
            patience = max(limit, self._limit)
            if not self._appears(f"{prefix}/late", patience):
                raise RuntimeError(f"monitored_barrier: rank 0 of the group has not called it within {patience}, or "
                                   "still waits for another rank")
        late = self._store.get(f"{prefix}/late").decode()
        if late != "none":
            raise RuntimeError(f"monitored_barrier: rank {late} of the group has not called it within {limit}")

    def _late(self, prefix: str, limit: timedelta, all_of_them: bool) -> str:
        """The ranks that have not called monitored_barrier(); "none" if all ranks have called it."""
        end, late = time.monotonic() + limit.total_seconds(), []
        for rank in range(1, self.size()):
            if not self._appears(f"{prefix}/{rank}", timedelta(seconds=end - time.monotonic())):
                late.append(str(rank))
                if not all_of_them:
                    break
        return ", ".join(late) or "none"

    def _appears(self, key: str, limit: timedelta) -> bool:
        try:
            self._store.wait([key], max(limit, timedelta(milliseconds=1)))  # with a limit of 0 some stores wait forever
        except RuntimeError:  # DistStoreError of newer torch is a RuntimeError too
            return False
        return True

    def _part(self, ranks: List[int], limit: timedelta, store: Any) -> "Identity":
        """The group of some ranks, including this rank."""
        raise NotImplementedError

    def split_group(self, new_ranks: List[int], timeout: Optional[timedelta] = None, opts: Any = None,
                    group_name: Optional[str] = None, group_desc: Optional[str] = None,
                    device_types: Optional[List[torch.device]] = None) -> "Optional[Identity]":
        """The group of some ranks, in this order; None on a rank that is not in it."""
        if self.rank() not in new_ranks:
            return None
        name = group_name or f"{self._name}:split:{'-'.join(map(str, new_ranks))}"
        made = self._part(new_ranks, timeout or self._limit, dist.PrefixStore(f"{name}/", self._store))
        made._set_group_name(name)
        made._set_group_desc(group_desc or f"{self._description}:split")
        return made
