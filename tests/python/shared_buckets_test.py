"""Buckets that move to shared memory, without a world: events at the same time, and steps that fail."""
import gc
import mmap
import os
import struct
import subprocess
import sys
import threading
import time

import pytest
import torch

from anello import dlpack
from anello.errors import Unsupported
from anello.torch import buckets, shared_buckets

ELEMENTS = shared_buckets.MIN_BYTES // 4


class Engine:
    """Replaces the library. Frees memory slowly, and counts it."""

    def __init__(self):
        self.freed = []

    def anello_allocate(self, bytes_, memory):
        return _engine.anello_allocate(bytes_, memory)

    def anello_deallocate(self, address):
        self.freed.append(address)
        if self.freed.count(address) == 1:
            time.sleep(0.2)
            _engine.anello_deallocate(address)


_engine = shared_buckets.lib


@pytest.fixture
def engine(monkeypatch):
    made = Engine()
    monkeypatch.setattr(shared_buckets, "lib", made)
    monkeypatch.setattr(shared_buckets, "_all", [])
    return made


def bucket(value=1.0):
    return torch.full((ELEMENTS,), float(value))


def moved(shared, made):
    """Passes a bucket twice. Returns the memory to which it was moved; None if it was not moved."""
    assert shared.find([made]) is None
    return shared.find([made])


def refuse_second_mapping(monkeypatch, before=lambda address: None):
    """Lets mremap to a given address fail. Returns the list of second mappings."""
    real, seen = shared_buckets._libc.mremap, []

    class Libc:
        munmap = shared_buckets._libc.munmap

        def mremap(self, old, old_size, size, flags, address):
            if address is None:
                return real(old, old_size, size, flags, address)
            seen.append(old)
            before(address)
            return shared_buckets._FAILED

    monkeypatch.setattr(shared_buckets, "_libc", Libc())
    return seen


def test_an_old_bucket_that_ends_while_a_new_one_moves_leaves_its_memory_alone(engine, monkeypatch):
    shared, old, new = shared_buckets.SharedBuckets(1), [bucket()], bucket(2)
    first = moved(shared, old[0]).address
    real = shared_buckets._Memory.map_over

    def map_over(self, address):
        old.clear()
        gc.collect()
        return real(self, address)

    monkeypatch.setattr(shared_buckets._Memory, "map_over", map_over)
    second = moved(shared, new)
    assert second is not None and second.address not in engine.freed
    assert (new == 2).all() and len(shared) == 1
    shared.find([torch.ones(1)])
    assert engine.freed == [first]
    del new
    shared.find([torch.ones(1)])
    assert engine.freed == [first, second.address]


def test_two_threads_free_each_memory_once(engine):
    groups = [shared_buckets.SharedBuckets(1) for _ in range(2)]
    buckets = [bucket() for _ in range(4)]
    memory = [moved(groups[0], each).address for each in buckets]
    views = [each.data for each in buckets]
    buckets.clear()  # the views keep the memory, until both threads may free it
    views.clear()
    errors, kept = [], []

    def move(group):
        try:
            kept.append(bucket())
            kept.append(moved(group, kept[-1]))
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=move, args=(each,)) for each in groups]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not errors
    assert sorted(engine.freed) == sorted(memory) and all(each is not None for each in kept)


def test_a_bucket_whose_memory_cannot_be_replaced_stays_an_ordinary_one(engine, monkeypatch):
    seconds = refuse_second_mapping(monkeypatch)
    shared, made = shared_buckets.SharedBuckets(1), bucket(3)
    assert moved(shared, made) is None and shared.find([made]) is None
    assert (made == 3).all() and len(shared) == 0
    assert len(engine.freed) == 1 and seconds[0] not in shared_buckets._mapped_files()


def test_what_comes_once_is_not_moved(engine, monkeypatch):
    """A hook around shared_memory_hook may pass a new copy in each step."""
    monkeypatch.setattr(torch.Tensor, "share_memory_", None)
    shared = shared_buckets.SharedBuckets(1)
    for _ in range(100):
        assert shared.find([bucket()]) is None
    assert len(shared) == 0 and len(shared._once) <= 1 and not engine.freed


def test_other_processes_that_are_given_a_view_get_what_is_in_it(engine):
    shared, made = shared_buckets.SharedBuckets(1), bucket(2)
    assert moved(shared, made) is not None
    descriptor, size = shared_buckets._storage(made)._share_fd_cpu_()  # torch.multiprocessing sends this
    made[1] = 5
    with mmap.mmap(descriptor, size) as theirs:
        assert struct.unpack("3f", theirs[:12]) == (2, 5, 2)
        theirs[8:12] = struct.pack("f", 7)
    assert made[:4].tolist() == [2, 5, 7, 2]


def no_torch_memory(monkeypatch):
    def share_memory_(self):
        raise RuntimeError("unable to open shared memory object </torch_1_2> in read-write mode: Permission denied (13)")

    monkeypatch.setattr(torch.Tensor, "share_memory_", share_memory_)


def no_torch_folder(monkeypatch):
    def statvfs(path):
        raise FileNotFoundError(f"No such file or directory: '{path}'")

    monkeypatch.setattr(shared_buckets.os, "statvfs", statvfs)


def no_engine_memory(monkeypatch):
    def anello_allocate(bytes_, memory):
        raise Unsupported("anello::allocate: making shared memory: Permission denied", "unsupported")

    monkeypatch.setattr(shared_buckets.lib, "anello_allocate", anello_allocate)


@pytest.mark.parametrize("forbid", [no_torch_memory, no_torch_folder, no_engine_memory])
def test_where_no_memory_can_be_shared_buckets_stay_ordinary_and_one_warning_says_so(engine, monkeypatch, forbid):
    forbid(monkeypatch)
    monkeypatch.setattr(shared_buckets, "_has_warned", False)
    shared, made = shared_buckets.SharedBuckets(1), [bucket(3), bucket(4)]
    with pytest.warns(UserWarning, match="gradients are sent more slowly.*(No such file|Permission denied)") as warnings:
        assert [moved(shared, each) for each in made] == [None, None]
    assert len(warnings) == 1 and len(shared) == 0
    assert (made[0] == 3).all() and (made[1] == 4).all()


def test_an_optimizers_bucket_without_shared_memory_is_made_of_ordinary_memory(monkeypatch):
    monkeypatch.setattr(shared_buckets, "_has_warned", False)
    monkeypatch.setattr(dlpack, "lib", type("Lib", (), {"anello_dtype_size": _engine.anello_dtype_size}))
    no_memory = Unsupported("anello::allocate: making shared memory: Permission denied", "unsupported")

    def anello_allocate(bytes_, memory):
        raise no_memory

    dlpack.lib.anello_allocate = staticmethod(anello_allocate)
    parameters = [torch.nn.Parameter(torch.ones(2, 3)), torch.nn.Parameter(torch.ones(4))]
    with pytest.warns(UserWarning, match="gradients are sent more slowly.*Permission denied") as warnings:
        made = [buckets.Bucket(name, parameters, shared=True) for name in ("first", "second")]
    assert len(warnings) == 1
    assert all(each.zero() and parameters[1].grad.shape == (4,) for each in made)


def test_a_bucket_whose_memory_is_lost_ends_the_process():
    script = """if True:
        import shared_buckets_test as test
        from anello.torch import shared_buckets
        class Patch:
            setattr = staticmethod(setattr)
        size = test.ELEMENTS * 4
        test.refuse_second_mapping(Patch, lambda address: shared_buckets._libc.munmap(address, size))
        made = test.bucket()
        try:
            test.moved(shared_buckets.SharedBuckets(1), made)
        except BaseException as error:
            print("caught", error)
    """
    folder = os.path.dirname(__file__)
    path = os.pathsep.join([folder, os.environ.get("PYTHONPATH", "")])
    done = subprocess.run([sys.executable, "-B", "-c", script], env={**os.environ, "PYTHONPATH": path},
                          capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1 and "caught" not in done.stdout
    assert "a bucket's memory is lost" in done.stderr
