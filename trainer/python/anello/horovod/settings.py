"""Horovod's environment variables, as settings of Anello.

Understood: HOROVOD_TIMELINE, HOROVOD_LOG_LEVEL, HOROVOD_STALL_CHECK_TIME_SECONDS, HOROVOD_STALL_CHECK_DISABLE,
HOROVOD_STALL_SHUTDOWN_TIME_SECONDS, and, by DistributedOptimizer, HOROVOD_FUSION_THRESHOLD. The variables of Horovod's
cycle time and cache have no meaning here: there are neither cycles nor a cache. A variable of Anello's own has
precedence. Rank 0 warns of a variable that looks like a misspelt variable of Horovod.
"""
import difflib
import math
import os
from typing import Dict, List, Optional

_KNOWN = {"HOROVOD_" + name for name in """
ADASUM_MPI_CHUNK_SIZE AUTOTUNE AUTOTUNE_BAYES_OPT_MAX_SAMPLES AUTOTUNE_GAUSSIAN_PROCESS_NOISE AUTOTUNE_LOG
AUTOTUNE_STEPS_PER_SAMPLE AUTOTUNE_WARMUP_SAMPLES BATCH_D2D_MEMCOPIES CACHE_CAPACITY CCL_BGT_AFFINITY CCL_CACHE
CONTROLLER CPU_OPERATIONS CROSS_RANK CROSS_SIZE CYCLE_TIME DISABLE_GROUP_FUSION DISABLE_NVTX_RANGES DYNAMIC_PROCESS_SETS
ELASTIC ENABLE_ASYNC_COMPLETION ENABLE_XLA_OPS FUSION_THRESHOLD GLOO_IFACE GLOO_RENDEZVOUS_ADDR GLOO_RENDEZVOUS_PORT
GLOO_TIMEOUT_SECONDS HIERARCHICAL_ALLGATHER HIERARCHICAL_ALLREDUCE HOSTNAME LOCAL_RANK LOCAL_SIZE LOG_HIDE_TIME
LOG_LEVEL LOG_TIMESTAMP MPI_THREADS_DISABLE NUM_NCCL_STREAMS RANK SIZE STALL_CHECK_DISABLE STALL_CHECK_TIME_SECONDS
STALL_SHUTDOWN_TIME_SECONDS THREAD_AFFINITY TIMELINE TIMELINE_MARK_CYCLES""".split()}

_LEVELS = {"trace": "debug", "debug": "debug", "info": "info", "warning": "warning", "error": "error", "fatal": "error"}


def _number(name: str) -> Optional[float]:
    """The number in a variable; None if the variable is not set or empty. ValueError if it is not a number of at least
    0."""
    value = os.environ.get(name)
    if not value:
        return None
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not math.isfinite(number) or number < 0:
        raise ValueError(f"{name} must be a number of at least 0, not {value!r}")
    return number


def _level() -> Optional[str]:
    """The engine's name of the level in HOROVOD_LOG_LEVEL; None if it is not set or empty. Raises ValueError."""
    value = os.environ.get("HOROVOD_LOG_LEVEL")
    if not value:
        return None
    if value.lower() not in _LEVELS:
        raise ValueError(f"HOROVOD_LOG_LEVEL must be one of {', '.join(_LEVELS)}, not {value!r}")
    return _LEVELS[value.lower()]


def from_horovod() -> List[str]:
    """Settings for anello.init(). Raises ValueError."""
    found = {}
    level = _level()
    if level is not None:
        found["ANELLO_LOG"] = level
    seconds = _number("HOROVOD_STALL_CHECK_TIME_SECONDS")
    if seconds is not None:
        found["ANELLO_STALL_TIME"] = str(int(seconds * 1000))
    if os.environ.get("HOROVOD_STALL_CHECK_DISABLE") == "1":
        found["ANELLO_STALL_TIME"] = "0"
    seconds = _number("HOROVOD_STALL_SHUTDOWN_TIME_SECONDS")
    if seconds is not None:
        found["ANELLO_OPERATION_LIMIT"] = str(int(seconds * 1000))
    return [f"{name}={value}" for name, value in found.items() if name not in os.environ]


def timeline() -> str:
    """The file for a timeline that begins at the start, or ''. Only rank 0's is used; other ranks' paths may differ."""
    path = os.environ.get("HOROVOD_TIMELINE", "")
    return "" if path == "DYNAMIC" or "ANELLO_TIMELINE" in os.environ else path


def misspelt() -> Dict[str, str]:
    """Unknown variables whose names resemble a variable of Horovod, each with the variable that was probably meant."""
    unknown = [name for name in sorted(os.environ) if name.startswith("HOROVOD_") and name not in _KNOWN]
    nearest = {name: difflib.get_close_matches(name, sorted(_KNOWN), 1, 0.9) for name in unknown}
    return {name: found[0] for name, found in nearest.items() if found}


def bucket_bytes() -> int:
    """The size at which a bucket of gradients is sent: HOROVOD_FUSION_THRESHOLD, or 4 MiB. Raises ValueError."""
    number = _number("HOROVOD_FUSION_THRESHOLD")
    return 4 << 20 if number is None else int(number)
