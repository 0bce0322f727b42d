"""A process runs several test files one after another. Each file ends its world."""
import itertools
import os
import tempfile

import pytest

import anello
from anello.agenda import Agenda

_groups = itertools.count()


@pytest.fixture(scope="module")
def world():
    with anello.init() as made:
        yield made


@pytest.fixture(scope="module")
def agenda(world):
    made = Agenda(world)
    yield made
    world.barrier()
    made.free()


@pytest.fixture(scope="module")
def horovod():
    import anello.torch as hvd
    yield hvd
    hvd.shutdown()


@pytest.fixture(scope="module")
def horovod_for_tensorflow():
    import anello.tensorflow as hvd
    hvd.init()
    yield hvd
    hvd.shutdown()


@pytest.fixture(scope="module")
def process_group():
    """Does not use env://. With it, each file would make a new store at the same port, and a rank might reach the old
    store."""
    import torch.distributed as dist

    import anello.torch.distributed  # noqa: F401, registers the backend
    store = os.path.join(tempfile.gettempdir(), f"anello-{os.environ['ANELLO_JOB']}-{next(_groups)}")
    dist.init_process_group("anello", init_method=f"file://{store}", rank=int(os.environ["RANK"]),
                            world_size=int(os.environ["WORLD_SIZE"]))
    yield
    dist.destroy_process_group()
