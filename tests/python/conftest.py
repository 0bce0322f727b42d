"""The files of a process share it one after the other: each ends its world."""
import pytest

import anello


@pytest.fixture(scope="module")
def world():
    with anello.init() as made:
        yield made


@pytest.fixture(scope="module")
def horovod():
    import anello.torch as hvd
    yield hvd
    hvd.shutdown()
