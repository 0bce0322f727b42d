"""Measures for torch.distributed what idle.cpp measures for other libraries. torch_peer.py calls measure()."""
import os
import resource
import time

import torch
import torch.distributed as dist


class Used:
    """A `with` block that counts the resources which all threads of this process use in it."""

    def __enter__(self):
        self._before = resource.getrusage(resource.RUSAGE_SELF)
        return self

    def __exit__(self, *_):
        before, after = self._before, resource.getrusage(resource.RUSAGE_SELF)
        self.processor_ms = (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1e3
        self.voluntary, self.involuntary = after.ru_nvcsw - before.ru_nvcsw, after.ru_nivcsw - before.ru_nivcsw


def _sum_in(path, *names):
    with open(path) as file:
        return sum(float(line.split()[1]) for line in file if line.startswith(names))


def _mib(*names):
    return _sum_in("/proc/self/smaps_rollup", *names) / 1024


def _repeat(tensor, times):
    for _ in range(times):
        dist.all_reduce(tensor)


def measure(idle_ms, late_ms, operations):
    """Returns the row of idle.cpp. All ranks call."""
    is_late = dist.get_rank() == dist.get_world_size() - 1
    tensors = torch.zeros(1), torch.zeros(16384)
    for tensor in tensors:
        _repeat(tensor, operations // 10 + 1)
    with Used() as idle:
        time.sleep(idle_ms / 1e3)
    _repeat(tensors[0], 1)
    with Used() as waiting:
        if is_late:
            time.sleep(late_ms / 1e3)
        _repeat(tensors[0], 1)
    switches = []
    for tensor in tensors:
        with Used() as used:
            _repeat(tensor, operations)
        switches += [used.voluntary / operations, used.involuntary / operations]
    row = torch.tensor([idle.processor_ms * 1e3 / idle_ms, 0 if is_late else waiting.processor_ms * 1e3 / late_ms,
                        _mib("Rss:"), _mib("Private_"), _mib("Shared_"), len(os.listdir("/proc/self/fd")) - 1,
                        _sum_in("/proc/self/status", "Threads:"), *switches], dtype=torch.float64)
    dist.all_reduce(row)
    ranks = dist.get_world_size()
    return [value / (ranks - 1 if column == 1 else ranks) for column, value in enumerate(row.tolist())]
