"""One world for all tests of a process."""
import pytest

import anello


@pytest.fixture(scope="session")
def world():
    with anello.init() as made:
        yield made
