"""Operations of the backend of torch.distributed: the handles that torch gets, and the threads that complete them."""
from __future__ import annotations

import collections
import contextlib
import os
import queue
import threading
import time
from datetime import timedelta
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import torch
import torch.distributed as dist

from ..group import Group
from ..work import Work

_TorchWork = getattr(dist, "Work", None) or dist._Work


class Completer:
    """A thread that waits for operations in their order, moves their data, and completes their futures.

    A group has one for its collectives, one for the transfers to each peer and from it, and one for receives from any:
    what is done in one order need not wait for the rest, for example an allreduce for a receive started before it.
    """

    _running: "Dict[threading.Thread, Completer]" = {}

    def __init__(self) -> None:
        # Guards the next two, so that nothing is queued behind the end of a thread. The garbage collector may call
        # stop() within stop().
        self._lock = threading.RLock()
        self._queue: "queue.SimpleQueue[Optional[Operation]]" = queue.SimpleQueue()
        self._thread: Optional[threading.Thread] = None

    def add(self, operation: "Operation") -> None:
        with self._lock:
            if self._thread is None:
                thread = threading.Thread(target=self._run, args=(self._queue,), name="anello completer", daemon=True)
                thread.start()  # may raise: then nothing has changed
                self._thread, self._running[thread] = thread, self
            self._queue.put(operation)

    def stop(self) -> None:
        """Ends the thread when every operation is done; a later one gets a new thread. Does not block."""
        with self._lock:
            if self._thread is not None:
                self._queue.put(None)
                self._thread, self._queue = None, queue.SimpleQueue()

    @classmethod
    def stop_all(cls, limit: Optional[float] = None) -> None:
        """Waits until every operation of every group is done. TimeoutError after `limit` seconds."""
        end = None if limit is None else time.monotonic() + limit
        running = list(cls._running.items())
        for _, completer in running:
            completer.stop()
        for thread, _ in running:
            thread.join(None if end is None else max(0.0, end - time.monotonic()))
            if thread.is_alive():
                raise TimeoutError(f"operations are not done after {limit} s")

    @staticmethod
    def _run(operations: "queue.SimpleQueue[Optional[Operation]]") -> None:
        while True:
            operation = operations.get()
            if operation is None:
                Completer._running.pop(threading.current_thread(), None)
                return
            operation.complete()
            del operation  # it would keep its tensors until the next one comes


# A child made by fork() has none of its parent's threads, and perhaps their locks for ever.
os.register_at_fork(after_in_child=Completer._running.clear)


class _Unclaimed(threading.local):
    """The last operations that a thread has started and nobody has waited for.

    torch's own code keeps only the part in C++, whose wait() never returns if the part in Python has gone. It waits in
    the thread that started the operation, for at most two at a time.
    """

    def __init__(self) -> None:
        self.operations: "collections.deque[Operation]" = collections.deque(maxlen=4)


unclaimed = _Unclaimed()


class Operation(_TorchWork):
    """An operation. It lives until it is done, also if the program drops it."""

    def __init__(self, verb: str, works: Sequence[Work], tensors: List[torch.Tensor], finish: Callable[[], None],
                 limit: timedelta, source: int = -1) -> None:
        super().__init__()
        self._verb = verb
        self._limit = limit
        self._works, self._tensors, self._finish = works, tensors, finish
        self._source = source
        self._error: Optional[Exception] = None
        self._done = threading.Event()
        self._over: torch.futures.Future = torch.futures.Future()

    def _begin(self) -> None:
        """Called first, by the completer."""

    def complete(self) -> None:
        """Called once, by the completer."""
        try:
            self._begin()
            for work in self._works:
                work.wait()
            self._finish()
        except Exception as error:  # it belongs to those who wait
            self._error = error
        self._done.set()
        self._over.set_result(None)

    def _outcome(self, _: Any) -> List[torch.Tensor]:
        if self._error is not None:
            raise self._error
        return self._tensors

    def _claim(self) -> None:
        with contextlib.suppress(ValueError):
            unclaimed.operations.remove(self)

    def is_completed(self) -> bool:
        done = self._done.is_set()
        if done:
            self._claim()
        return done

    def is_success(self) -> bool:
        return self._done.is_set() and self._error is None

    def exception(self) -> Optional[Exception]:
        return self._error

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        """Blocks until the operation is done. Ctrl-C is seen at once; a timeout of zero is that of the group."""
        self._claim()
        limit = timeout or self._limit
        if not self._done.wait(min(limit.total_seconds(), threading.TIMEOUT_MAX)):
            raise RuntimeError(f"{self._describe()} is not done, but the timeout of {limit} is over")
        if self._error is not None:
            raise self._error
        return True

    def _describe(self) -> str:
        """As the engine has it in its errors: "allreduce of 7 float64"."""
        if not self._tensors:
            return self._verb
        elements = sum(each.numel() for each in self._tensors)
        source = f" from rank {self._source} of the group" if self._source >= 0 else ""
        return f"{self._verb} of {elements} {str(self._tensors[0].dtype).split('.')[-1]}{source}"

    def synchronize(self) -> None:
        self.wait()

    def result(self) -> List[torch.Tensor]:
        self.wait()
        return self._tensors

    def source_rank(self) -> int:
        """The rank of the group that sent what was received; -1 if it is not known yet, or nothing is received."""
        return self._source

    def _source_rank(self) -> int:  # the name in torch.distributed
        return self.source_rank()

    def get_future(self) -> torch.futures.Future:
        self._claim()
        # Not one with set_exception(): torch's code in C++, such as DistributedDataParallel's, would take the exception
        # for the list of tensors, and crash.
        return self._over.then(self._outcome)


class AnySource:
    """The other ranks of a group, any of which may send. They are asked in turn, so that none waits for ever."""

    _FIRST_PAUSE_S, _LONGEST_PAUSE_S = 50e-6, 1e-3

    def __init__(self, group: Group) -> None:
        self._group = group
        self._last = group.rank

    def receive(self, buffer: torch.Tensor) -> Tuple[int, Work]:
        """Starts to receive from the first rank of which something comes, and returns which. Blocks until then.

        Raises the world's error if the world fails, and ValueError when it has ended.
        """
        pause = self._FIRST_PAUSE_S
        while True:
            turns = [(self._last + k) % self._group.size for k in range(1, self._group.size + 1)]
            found = self._group.recv_arrived_async(buffer, [rank for rank in turns if rank != self._group.rank])
            if found is not None:
                self._last = found[0]
                return found
            time.sleep(pause)
            pause = min(2 * pause, self._LONGEST_PAUSE_S)


class AnyReceive(Operation):
    """A receive from whichever rank sends first."""

    def __init__(self, any_source: AnySource, buffer: torch.Tensor, *operation: Any) -> None:
        super().__init__("recv", [], *operation)
        self._any_source, self._buffer = any_source, buffer

    def _describe(self) -> str:
        return super()._describe() + (" from any rank" if self._source < 0 else "")

    def _begin(self) -> None:
        self._source, work = self._any_source.receive(self._buffer)
        self._works = [work]
