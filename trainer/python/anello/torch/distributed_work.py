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


class _Callbacks:
    """Threads for what programs do as soon as a future is complete.

    A callback may wait for another operation, whose future has callbacks too. So none waits for a thread: if none is
    free it gets a new one.
    """

    def __init__(self) -> None:
        self._state = threading.Condition()
        self._tasks: "queue.SimpleQueue[Callable[[], None]]" = queue.SimpleQueue()
        self._free = 0  # threads that wait for a task, beyond the tasks that wait for a thread
        self._begun = 0  # tasks that have not returned

    def run(self, task: Callable[[], None]) -> None:
        with self._state:
            if self._free > 0:
                self._free -= 1
            else:
                threading.Thread(target=self._run, name="anello callbacks", daemon=True).start()
            self._begun += 1
            self._tasks.put(task)

    def _run(self) -> None:
        while True:
            task = self._tasks.get()
            try:
                task()
            finally:
                del task  # it would keep its tensors until the next one comes
                with self._state:
                    self._free += 1
                    self._begun -= 1
                    self._state.notify_all()

    def wait(self, limit: Optional[float]) -> bool:
        """Waits until every callback has returned. False: not within the limit."""
        with self._state:
            return self._state.wait_for(lambda: self._begun == 0, limit)

    def busy(self) -> bool:
        return self._begun > 0


_callbacks = _Callbacks()


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
        """Waits until every operation of every group and its callbacks are done. TimeoutError after `limit` seconds."""
        end = None if limit is None else time.monotonic() + limit
        while cls._running or _callbacks.busy():  # a callback may start operations
            running = list(cls._running.items())
            for _, completer in running:
                completer.stop()
            for thread, _ in running:
                thread.join(_seconds_until(end))
                if thread.is_alive():
                    raise TimeoutError(f"operations are not done after {limit} s")
            if not _callbacks.wait(_seconds_until(end)):
                raise TimeoutError(f"callbacks of operations have not returned after {limit} s")

    @staticmethod
    def _run(operations: "queue.SimpleQueue[Optional[Operation]]") -> None:
        while True:
            operation = operations.get()
            if operation is None:
                Completer._running.pop(threading.current_thread(), None)
                return
            operation.complete()
            del operation  # it would keep its tensors until the next one comes


def _seconds_until(end: Optional[float]) -> Optional[float]:
    return None if end is None else max(0.0, end - time.monotonic())


def _after_fork() -> None:
    # A child made by fork() has none of its parent's threads, and perhaps their locks for ever.
    global _callbacks
    _callbacks = _Callbacks()
    Completer._running.clear()


os.register_at_fork(after_in_child=_after_fork)


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
                 limit: timedelta, source: int = -1, limited: bool = False) -> None:
        """`limited`: the limit ends also a wait for the future, counted from now."""
        super().__init__()
        self._end = time.monotonic() + limit.total_seconds() if limited else None
        self._verb = verb
        self._limit = limit
        self._works, self._tensors, self._finish = works, tensors, finish
        self._source = source
        self._error: Optional[Exception] = None
        self._done = threading.Event()
        self._lock = threading.Lock()  # of the next three
        self._over: torch.futures.Future = torch.futures.Future()
        self._is_watched = False  # the program has a future, which may have callbacks
        self._is_over = False  # the future is complete, or will be at once

    def _begin(self) -> None:
        """Called first, by the completer."""

    def complete(self) -> None:
        """Called once, by the completer."""
        try:
            self._begin()
            for work in self._works:
                self._wait_for(work)
            self._finish()
        except Exception as error:  # it belongs to those who wait
            self._error = error
        self._done.set()
        self._complete_future()

    def _wait_for(self, work: Work) -> None:
        try:
            if self._end is not None:
                work.wait(max(0.0, min(self._end - time.monotonic(), threading.TIMEOUT_MAX)))
                return
        except TimeoutError:
            self._complete_future()  # with an error; the operation goes on
        work.wait()

    def _complete_future(self) -> None:
        with self._lock:
            if self._is_over:
                return
            self._is_over = True
            if not self._is_watched:
                self._over.set_result(None)
                return
        _callbacks.run(lambda: self._over.set_result(None))

    def _outcome(self, _: Any) -> List[torch.Tensor]:
        if not self._done.is_set():
            raise self._late(self._limit)
        if self._error is not None:
            raise self._error
        return self._tensors

    def _late(self, limit: timedelta) -> RuntimeError:
        return RuntimeError(f"{self._describe()} is not done, but the timeout of {limit} is over: another rank has not "
                            "called it yet, or is slow. After ANELLO_STALL_TIME a warning names a rank that is late. "
                            "To wait longer, give init_process_group() or new_group() a longer timeout=")

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
            raise self._late(limit)
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
        with self._lock:
            self._is_watched = True
        # Not one with set_exception(): torch's code in C++, such as DistributedDataParallel's, would take the exception
        # for the list of tensors, and crash.
        return self._over.then(self._outcome)


class AnySource:
    """The other ranks of a group, any of which may send. They are asked in turn, so that none waits for ever."""

    _FIRST_PAUSE_S, _LONGEST_PAUSE_S = 50e-6, 1e-3

    def __init__(self, group: Group) -> None:
        self._group = group
        self._last = group.rank

    def receive(self, buffer: torch.Tensor, options: Dict[str, Any]) -> Tuple[int, Work]:
        """Starts to receive from the first rank of which something comes, and returns which. Blocks until then.

        Raises the world's error if the world fails, and ValueError when it has ended.
        """
        pause = self._FIRST_PAUSE_S
        while True:
            turns = [(self._last + k) % self._group.size for k in range(1, self._group.size + 1)]
            others = [rank for rank in turns if rank != self._group.rank]
            found = self._group.recv_arrived_async(buffer, others, **options)
            if found is not None:
                self._last = found[0]
                return found
            time.sleep(pause)
            pause = min(2 * pause, self._LONGEST_PAUSE_S)


class AnyReceive(Operation):
    """A receive from whichever rank sends first."""

    def __init__(self, any_source: AnySource, buffer: torch.Tensor, options: Dict[str, Any], *operation: Any) -> None:
        super().__init__("recv", [], *operation)
        self._any_source, self._buffer, self._options = any_source, buffer, options

    def _describe(self) -> str:
        return super()._describe() + (" from any rank" if self._source < 0 else "")

    def _begin(self) -> None:
        self._source, work = self._any_source.receive(self._buffer, self._options)
        self._works = [work]
