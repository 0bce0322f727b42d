"""Horovod's environment variables, as settings of Anello.

Understood: HOROVOD_TIMELINE, HOROVOD_LOG_LEVEL, HOROVOD_STALL_CHECK_TIME_SECONDS, HOROVOD_STALL_CHECK_DISABLE, and, by
DistributedOptimizer, HOROVOD_FUSION_THRESHOLD. The variables of Horovod's clock and cache have no meaning here: there
is no clock. A variable of Anello's own wins.
"""
import os
from typing import List

_LEVELS = {"trace": "debug", "debug": "debug", "info": "info", "warning": "warning", "error": "error", "fatal": "error"}


def from_horovod() -> List[str]:
    """Settings for anello.init()."""
    found = {}
    timeline = os.environ.get("HOROVOD_TIMELINE", "")
    if timeline and timeline != "DYNAMIC":
        found["ANELLO_TIMELINE"] = timeline
    level = os.environ.get("HOROVOD_LOG_LEVEL", "").lower()
    if level in _LEVELS:
        found["ANELLO_LOG"] = _LEVELS[level]
    seconds = os.environ.get("HOROVOD_STALL_CHECK_TIME_SECONDS")
    if seconds:
        found["ANELLO_STALL_TIME"] = str(int(float(seconds) * 1000))
    if os.environ.get("HOROVOD_STALL_CHECK_DISABLE") == "1":
        found["ANELLO_STALL_TIME"] = "0"
    return [f"{name}={value}" for name, value in found.items() if name not in os.environ]


def bucket_bytes() -> int:
    """The size from which on gradients are sent: HOROVOD_FUSION_THRESHOLD, or 4 MiB."""
    return int(os.environ.get("HOROVOD_FUSION_THRESHOLD") or 4 << 20)
