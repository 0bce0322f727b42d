"""The parts of data-parallel training besides allreduce() and shard(): learning rates, checkpoints, metrics.

Nothing here needs numpy or torch.
"""
from __future__ import annotations

import array
import contextlib
import os
import tempfile
from typing import Any, BinaryIO, Callable, Dict, Iterator, Mapping, Optional

from .group import Group


def steps_per_epoch(samples: int, batch: int, size: int) -> int:
    """The number of steps in which `size` ranks use each of `samples` samples once, with `batch` samples in each rank's
    step; rounded down."""
    steps = samples // (batch * size) if batch > 0 and size > 0 else 0
    if steps == 0:
        raise ValueError(f"{samples} samples are fewer than one batch of {batch} on each of {size} ranks")
    return steps


def scaled_learning_rate(rate: float, global_batch: int, reference_batch: int) -> float:
    """Scales a rate that was tuned for batches of `reference_batch` in proportion to the batch (Goyal et al., 2017)."""
    return rate * global_batch / reference_batch


def warm_up(steps: int, start: float = 0.0) -> Callable[[int], float]:
    """Factors for the learning rate: rises linearly from `start` to 1, then stays 1. Fits torch's LambdaLR."""
    if steps < 0:
        raise ValueError(f"the number of steps must not be negative, but is {steps}")
    return lambda step: 1.0 if step >= steps else start + (1.0 - start) * (step + 1) / (steps + 1)


def average_metrics(group: Group, metrics: Mapping[str, float]) -> Dict[str, float]:
    """Averages each metric over the ranks in one operation. All ranks must have the same metrics."""
    names = sorted(metrics)
    values = array.array("d", [float(metrics[name]) for name in names])  # raises before the operation
    others = group.allgather_object(names)
    for rank, each in enumerate(others):
        if each != names:
            raise ValueError(f"rank {rank} has the metrics {each}, rank {group.rank} has {names}")
    group.allreduce(values, "average")
    return dict(zip(names, values))


@contextlib.contextmanager
def replacing(path: "os.PathLike[str] | str") -> Iterator[BinaryIO]:
    """A file to write to. It replaces `path` when it is complete, and is removed if writing fails.

    Even after a crash, a reader finds the old file or the new file, never a part.
    """
    path = os.fspath(path)
    handle, scratch = tempfile.mkstemp(dir=os.path.dirname(path) or ".", prefix=os.path.basename(path) + ".")
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(scratch, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(scratch)
        raise


def save_on_rank_0(group: Group, path: "os.PathLike[str] | str", write: Callable[[BinaryIO], Any]) -> None:
    """Rank 0 writes a checkpoint with `write(file)`; all ranks return when it is complete, or raise if it failed."""
    problem: Optional[str] = None
    if group.rank == 0:
        try:
            with replacing(path) as file:
                write(file)
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
    problem = group.broadcast_object(problem)
    if problem is not None:
        raise OSError(f"rank 0 could not write {os.fspath(path)}: {problem}")
