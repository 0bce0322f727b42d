"""Runs the tests that the installed torch has for a backend of torch.distributed against "anello":

    PYTHONPATH=build/release/python python3 tests/python/torch_backend.py [-v] [-k PATTERN]

Tests that torch allows only for Gloo also run for "anello"; with ALSO=mpi (-k all_to_all), so do tests that torch
allows only for MPI. BACKEND=gloo runs the same tests against Gloo. WORLD_SIZE is the number of ranks (default 2). Tests
that cannot pass are skipped, with the reason. Not a part of ctest: it takes minutes.
"""
import importlib.util
import os
import pathlib
import sys
import types
import unittest

BACKEND = os.environ.setdefault("BACKEND", "anello")
os.environ.setdefault("WORLD_SIZE", "2")
os.environ.setdefault("DISTRIBUTED_TESTS_DEFAULT_TIMEOUT", "60")
os.environ["MASTER_ADDR"] = "127.0.0.1"

# By the beginning of their names: the reasons why tests that pass with Gloo cannot pass with "anello".
IMPOSSIBLE = {
    "test_monitored_barrier": "torch before 2.15 offers monitored_barrier for Gloo alone; since then its tests expect "
                              "the words of Gloo's errors",
}


class AlsoGloo(str):
    """The name "anello", which also compares equal to "gloo", for tests that are only for Gloo."""

    NAMES = ("anello", "gloo", os.environ.get("ALSO"))

    def __eq__(self, other):
        return other in self.NAMES

    def __ne__(self, other):
        return not self == other

    def __hash__(self):
        return hash("gloo")


def load_tests_of_torch():
    """The module with one line changed: the name of the backend."""
    name = "torch.testing._internal.distributed.distributed_test"
    source = pathlib.Path(importlib.util.find_spec(name).origin).read_text()
    module = types.ModuleType(name)
    module.__dict__["AlsoGloo"] = AlsoGloo if BACKEND == "anello" else str
    sys.modules[name] = module
    line = 'BACKEND = os.environ["BACKEND"]'
    assert source.count(line) == 1, f"{name} has no line {line}"
    exec(compile(source.replace(line, 'BACKEND = AlsoGloo(os.environ["BACKEND"])'), name, "exec"), module.__dict__)
    return module


def import_expecttest():
    """torch's tests import expecttest, but the tests of the backends do not use it."""
    if importlib.util.find_spec("expecttest") is None:
        sys.modules["expecttest"] = types.ModuleType("expecttest")
        sys.modules["expecttest"].__dict__.update(ACCEPT=False, TestCase=unittest.TestCase)


import_expecttest()
import torch  # noqa: E402
from torch.testing._internal.common_distributed import DistTestCases  # noqa: E402
import anello.torch.distributed  # noqa: E402, F401

if torch.__version__.startswith("1.13"):
    # This part cannot be imported with Python 3.11; DistributedDataParallel works without it.
    from torch.nn.parallel import _replicated_tensor_ddp_utils
    _replicated_tensor_ddp_utils._set_ddp_with_replicated_tensor = lambda value: None
torch.set_num_threads(1)
DistTestCases.backend_feature["plugin"].add("anello")
theirs = load_tests_of_torch()


class Backend(theirs.TestDistBackend, theirs.DistributedTest._DistTestBase):
    """Each test runs in separate processes."""

    def setUp(self):
        for name, why in IMPOSSIBLE.items() if BACKEND == "anello" else ():
            if self._testMethodName.startswith(name):
                self.skipTest(why)
        super().setUp()
        self._start_processes(torch.multiprocessing.get_context("fork").Process)


if __name__ == "__main__":
    unittest.main()
