"""A communication hook of DistributedDataParallel, for ranks of one host: moves the buckets to memory that all these
ranks map.

    model.register_comm_hook(SharedMemoryState(), shared_memory_hook)
"""
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook

from .distributed import AnelloProcessGroup
from .shared_buckets import SharedBuckets


_AVERAGE = dist.AllreduceOptions()
_AVERAGE.reduceOp = dist.ReduceOp.AVG


class SharedMemoryState:
    """The buckets of one model that shared_memory_hook has moved.

    Args:
        process_group: the model's process group; None: the default group. Raises TypeError if its backend is not
            "anello".
    """

    def __init__(self, process_group: Any = None) -> None:
        self.process_group = dist.group.WORLD if process_group is None else process_group
        if not isinstance(self.process_group, AnelloProcessGroup):
            raise TypeError(f"SharedMemoryState needs a process group of the backend 'anello', not "
                            f"{type(self.process_group).__name__}: call init_process_group('anello') before")
        self.buckets = SharedBuckets(self.process_group.size())


# The annotations are not strings, because torch compares them with its types.
def shared_memory_hook(state: SharedMemoryState, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """Starts the average of a bucket over the ranks, in place if the bucket could be moved. Does not block.

    If the ranks do not map each other's memory, it does the same as torch's allreduce_hook.
    """
    if not isinstance(bucket, dist.GradBucket):
        raise TypeError("shared_memory_hook needs buckets of DistributedDataParallel, which the python_reducer of "
                        "torch.compile does not make: register no hook, or leave torch._dynamo.config.optimize_ddp as "
                        "it is")
    group, tensors = state.process_group, [bucket.buffer()]
    if not group.maps_memory:
        return allreduce_hook(group, bucket)
    # One rank may have moved a bucket that another rank could not move, so moved and other buckets use the same
    # reduction.
    memory = state.buckets.find(tensors)
    started = group.allreduce(tensors, _AVERAGE) if memory is None else group.average_in_memory(memory, tensors)
    return started.get_future().then(lambda future: future.value()[0])
