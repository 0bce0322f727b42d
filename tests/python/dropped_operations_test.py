"""Operations of the backend "anello" that the program has dropped: torch may wait for them later."""
import contextlib
import gc
import os
import time
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist

from anello.torch import distributed_work

pytestmark = pytest.mark.usefixtures("process_group")


def descriptors():
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


def test_they_keep_no_group():
    def receive_from_any():
        group = dist.new_group(list(range(dist.get_world_size())), backend="anello")
        if dist.get_rank() == 0:
            for _ in range(1, dist.get_world_size()):
                got = torch.zeros(3)
                dist.irecv(got, group=group).wait()
                assert (got == 1).all()
        else:
            dist.send(torch.ones(3), 0, group=group)
        dist.barrier(group)
        dist.destroy_process_group(group)

    receive_from_any()
    before = descriptors()
    for _ in range(4):
        receive_from_any()
    # The engine's threads close the links of a group when they find that the other ranks have left the group.
    end = time.monotonic() + 20
    while descriptors() > before and time.monotonic() < end:
        time.sleep(0.05)
    assert descriptors() <= before


class _NotCopied(RuntimeError):
    def __init__(self, one, other):
        super().__init__(f"{one} {other}")


@pytest.mark.parametrize("kind", [RuntimeError, _NotCopied])
def test_they_keep_no_frames_of_the_program(kind):
    def fail():
        raise kind("full", "disk")

    def step():
        work = distributed_work.Operation("allreduce", [], [], fail, timedelta(seconds=1), callbacks)
        work.complete()
        work.wait()

    callbacks = distributed_work.Completer()
    with contextlib.suppress(RuntimeError):
        step()
    gc.collect()
    with pytest.raises(RuntimeError, match="disk") as caught:
        distributed_work._dropped[-1].wait()
    assert [each.name for each in caught.traceback][1:] == ["wait"]
    callbacks.stop()
