"""Moves DistributedDataParallel's buckets to memory that the ranks of a host map, so that they are reduced in place.

torch allocates a bucket once and reduces it in every step. When a bucket comes for the second time, torch moves its
storage to its own shared memory, together with all views of it. Then the engine's memory is mapped over this shared
memory. After this, one piece of memory has two addresses: torch's and the engine's. A bucket that comes only once is
not moved: torch makes new buckets in the second step, and a hook around this one may pass a copy in each step, as
fp16_compress_wrapper does. A numpy array that shares memory with a bucket would not move with the bucket: with
gradient_as_bucket_view=True, do not keep such an array from before the third backward pass.
"""
from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import threading
import weakref
from typing import Any, Dict, List, NoReturn, Optional, Tuple

import torch
import torch.multiprocessing

from .._library import lib
from ..horovod.user_warning import warn

MIN_BYTES = 256 << 10
_MAX_BUCKETS = 48  # a peer keeps 64 pieces of memory mapped
_ARRAY_TYPES = {torch.float16: "<f2", torch.float32: "<f4", torch.float64: "<f8"}
_MAY_MOVE, _FIXED = 1, 2
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mremap.restype = ctypes.c_void_p
_libc.mremap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_FAILED = ctypes.c_void_p(-1).value


class _Memory:
    """A bucket's memory at the address where the engine has mapped it, as an array for the engine."""

    def __init__(self, bucket: torch.Tensor) -> None:
        self.bytes = bucket.numel() * bucket.element_size()
        memory = ctypes.c_void_p()
        lib.anello_allocate(self.bytes, ctypes.byref(memory))
        self.address = memory.value or 0
        self.__array_interface__ = {"version": 3, "data": (self.address, False), "shape": tuple(bucket.shape),
                                    "typestr": _ARRAY_TYPES[bucket.dtype]}

    def map_over(self, address: int) -> bool:
        """Maps the memory also at `address`, where it replaces another mapping. Returns False if this failed and
        nothing has changed.

        The kernel removes the old mapping first. If the kernel fails after that, the process must end.
        """
        size = -(-self.bytes // mmap.PAGESIZE) * mmap.PAGESIZE
        replaced = _mapped_files().get(address)
        second = _libc.mremap(self.address, 0, size, _MAY_MOVE, None)  # size 0: the old mapping stays
        if second == _FAILED:
            return False
        ctypes.memmove(self.address, address, self.bytes)
        if _libc.mremap(second, size, size, _MAY_MOVE | _FIXED, address) != _FAILED:
            return True
        why = os.strerror(ctypes.get_errno())
        _libc.munmap(second, size)
        if not _is_mapped(address, replaced):
            _end_process(f"anello: a bucket's memory is lost: it was unmapped, and could not be mapped anew: {why}")
        return False

    def descriptor(self) -> int:
        """The engine's descriptor of the memory, open as long as the engine has the memory."""
        file = _mapped_files()[self.address]
        for each in map(int, os.listdir("/proc/self/fd")):
            with contextlib.suppress(OSError):  # the descriptor was closed in the meantime
                status = os.fstat(each)
                if (f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}", str(status.st_ino)) == file:
                    return each
        raise OSError("the file of the engine's memory is not open")

    def is_mapped_twice(self) -> bool:
        """True if torch's address is still mapped to the memory, even if only a view of a bucket is left."""
        files = _mapped_files()
        return list(files.values()).count(files[self.address]) > 1


def _mapped_files() -> Dict[int, Tuple[str, ...]]:
    """The device and the inode of each mapped file, by address."""
    with open("/proc/self/maps", encoding="utf-8") as lines:
        mappings = [line.split()[:5] for line in lines]
    return {int(each[0].split("-")[0], 16): tuple(each[3:]) for each in mappings}


def _is_mapped(address: int, file: Optional[Tuple[str, ...]]) -> bool:
    try:
        return file is not None and _mapped_files().get(address) == file
    except OSError:
        return False


def _end_process(why: str) -> NoReturn:
    """Ends the process. It cannot go on, because torch has a tensor without memory. Other ranks see this rank leave."""
    try:
        os.write(2, f"{why}\n".encode())
    finally:
        os._exit(1)


# Guards the two following variables: each model has its own SharedBuckets, and each process group its own threads.
_lock = threading.Lock()
_all: List[_Memory] = []  # the memory of all buckets of this process, except memory that is being mapped now
_has_warned = False


def _free_unused() -> None:
    """Frees memory that only the engine has mapped."""
    with contextlib.suppress(OSError):  # if no file can be opened now, the next call frees the memory
        for memory in [each for each in _all if not each.is_mapped_twice()]:
            _all.remove(memory)
            lib.anello_deallocate(memory.address)


def warn_of_private_memory(why: Exception) -> None:
    """Warns, once in a process, that buckets cannot be moved. Gradients are sent in spite of that."""
    global _has_warned
    if not _has_warned:
        _has_warned = True
        warn(f"gradients are sent more slowly, as no memory can be made that other ranks of this host can read: {why}")


class SharedBuckets:
    """The buckets that were moved, until torch frees them.

    Any thread may free a bucket, even while another bucket is moved. Only the weak reference shows that a bucket was
    freed; the next find() frees the bucket's memory.
    """

    def __init__(self, size: int) -> None:
        """`size` is the number of ranks on this host."""
        self._size = size
        self._memory: Dict[int, _Memory] = {}  # by torch's address
        self._seen: Dict[int, Any] = {}  # by torch's address: a weak reference to the bucket, even if it was not moved
        self._once: Dict[int, Any] = {}  # like _seen, but only for buckets that have come only once

    def __len__(self) -> int:
        with _lock:
            self._forget_dead()
            return len(self._memory)

    def find(self, tensors: Any) -> Optional[_Memory]:
        """Returns the memory of a bucket. A bucket that comes for the second time is moved now.

        Returns None if the bucket comes for the first time, is small, has a type that is not supported, or cannot be
        moved.
        """
        with _lock:
            self._forget_dead()
            return self._find(tensors)

    def _find(self, tensors: Any) -> Optional[_Memory]:
        bucket = tensors[0]
        if len(tensors) != 1 or not self._is_bucket(bucket):
            return None
        address = bucket.data_ptr()
        if not _refers_to(self._seen.get(address), bucket):
            self._memory.pop(address, None)  # of an earlier bucket at this address
            if not _refers_to(self._once.pop(address, None), bucket):
                self._once[address] = weakref.ref(bucket)
                return None
            self._move(bucket)
        return self._memory.get(bucket.data_ptr())

    def _is_bucket(self, tensor: torch.Tensor) -> bool:
        bytes_ = tensor.numel() * tensor.element_size()
        return (bytes_ >= MIN_BYTES and tensor.dtype in _ARRAY_TYPES and tensor.device.type == "cpu"
                and not tensor.is_sparse and tensor.is_contiguous() and tensor.storage_offset() == 0
                and _storage(tensor).nbytes() == bytes_)

    def _move(self, bucket: torch.Tensor) -> None:
        try:
            if len(self._memory) < _MAX_BUCKETS and self._may_share(bucket):
                self._share(bucket)
        # The engine or torch raises one of these errors if there is no memory, no /dev/shm, or if there are too many
        # files.
        except (OSError, RuntimeError) as error:
            warn_of_private_memory(error)
        self._seen[bucket.data_ptr()] = weakref.ref(bucket)

    def _share(self, bucket: torch.Tensor) -> None:
        memory = _Memory(bucket)
        try:
            bucket.share_memory_()
            address, file = bucket.data_ptr(), memory.descriptor()
            if address % mmap.PAGESIZE == 0 and memory.map_over(address):
                self._memory[address] = memory
                # torch.multiprocessing sends views to other processes by torch's descriptor, so this descriptor must
                # refer to the new memory. dup2() also frees the memory to which it referred before.
                os.dup2(file, _storage(bucket)._share_fd_cpu_()[0], inheritable=False)
        finally:
            _all.append(memory)  # not earlier: _free_unused() frees memory that is not mapped twice
            _free_unused()

    def _may_share(self, bucket: torch.Tensor) -> bool:
        """True if torch's shared memory has room: a write beyond the room kills the process. Raises OSError if there is
        no /dev/shm."""
        room = os.statvfs("/dev/shm")
        needed = 4 * self._size * bucket.numel() * bucket.element_size()
        return (not bucket.is_shared() and torch.multiprocessing.get_sharing_strategy() == "file_descriptor"
                and room.f_bavail * room.f_frsize > needed)

    def _forget_dead(self) -> None:
        _without_dead(self._once)
        if any([self._memory.pop(address, None) for address in _without_dead(self._seen)]):  # a list: all are removed
            _free_unused()


def _storage(tensor: torch.Tensor) -> Any:
    """The storage. Uses torch 2's method if it exists, because torch 2 warns about storage()."""
    return getattr(tensor, "untyped_storage", tensor.storage)()


def _without_dead(buckets: Dict[int, Any]) -> List[int]:
    """Removes buckets that torch has freed. Returns their addresses."""
    dead = [address for address, bucket in buckets.items() if bucket() is None]
    for address in dead:
        del buckets[address]
    return dead


def _refers_to(reference: Any, bucket: torch.Tensor) -> bool:
    return reference is not None and reference() is bucket
