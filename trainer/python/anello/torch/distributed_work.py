"""Operations of the backend of torch.distributed: the handles for torch, and the threads that complete operations."""
from __future__ import annotations

import collections
import contextlib
import copy
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

_TorchWork: Any = getattr(dist, "Work", None) or dist._Work


class Completer:
    """A thread that waits for operations one after the other, moves their data, and completes their futures.

    A group has one thread for its collectives, one for the transfers to each peer, one for the transfers from each
    peer, and one for receives from any rank. So an allreduce, for example, does not wait for a receive that was started
    before it. Callbacks of futures have other threads, since they may wait for operations.
    """

    _running: "Dict[threading.Thread, Completer]" = {}

    def __init__(self) -> None:
        # Guards the next three members, so that nothing is added to a thread that is about to end. It is an RLock,
        # because the garbage collector may call stop() within stop().
        self._lock = threading.RLock()
        self._queue: "queue.SimpleQueue[Any]" = queue.SimpleQueue()
        self._thread: Optional[threading.Thread] = None
        self._unfinished = 0

    def add(self, operation: Any) -> None:
        """Adds an operation. The thread calls the operation's method complete() once; complete() must not raise."""
        with self._lock:
            if self._thread is None:
                thread = threading.Thread(target=self._run, args=(self._queue,), name="anello completer", daemon=True)
                thread.start()  # may raise: then nothing has changed
                self._thread, self._running[thread] = thread, self
            self._unfinished += 1
            self._queue.put(operation)

    def is_idle(self) -> bool:
        """True if everything that was added is complete."""
        return self._unfinished == 0

    def stop(self) -> None:
        """Ends the thread when every operation is done. A later operation gets a new thread. Does not block."""
        with self._lock:
            if self._thread is not None:
                self._queue.put(None)
                self._thread, self._queue = None, queue.SimpleQueue()

    @classmethod
    def stop_all(cls, limit: Optional[float] = None) -> None:
        """Waits until all operations of all groups and their callbacks are done. Raises TimeoutError after `limit`
        seconds."""
        end = None if limit is None else time.monotonic() + limit
        while cls._running:  # a callback may start operations
            running = list(cls._running.items())
            for _, completer in running:
                completer.stop()
            for thread, _ in running:
                thread.join(None if end is None else max(0.0, end - time.monotonic()))
                if thread.is_alive():
                    raise TimeoutError(f"operations or their callbacks are not done after {limit} s")

    def _run(self, operations: "queue.SimpleQueue[Any]") -> None:
        try:
            while True:
                operation = operations.get()
                if operation is None:
                    return
                operation.complete()
                del operation  # otherwise this variable would keep the tensors until the next operation comes
                with self._lock:
                    self._unfinished -= 1
        finally:
            Completer._running.pop(threading.current_thread(), None)


# A child made by fork() has none of its parent's threads. But the child may have copies of locks that these threads
# held, and these copies are never released.
os.register_at_fork(after_in_child=Completer._running.clear)


class _ThisThread(threading.local):
    runs_callbacks = False


_this_thread = _ThisThread()


class _CompletedFuture:
    """Completes a future, which runs the future's callbacks."""

    def __init__(self, future: torch.futures.Future) -> None:
        self._future = future

    def complete(self) -> None:
        _this_thread.runs_callbacks = True
        try:
            self._future.set_result(None)
        finally:
            _this_thread.runs_callbacks = False
            unclaimed.operations.clear()  # drops operations that callbacks have started


class _Unclaimed(threading.local):
    """The last operations that this thread has started, unless the program has waited for them.

    An operation has a part in C++ and a part in Python. torch's own code keeps only the C++ part, whose wait() never
    returns if the Python part is gone. torch waits in the thread that started the operation, for at most two operations
    at a time.
    """

    def __init__(self) -> None:
        self.operations: "collections.deque[Operation]" = collections.deque(maxlen=4)


unclaimed = _Unclaimed()

# Copies of operations that the program has dropped, without tensors and tracebacks. torch's C++ code may wait for its
# part of an operation much later, as functional collectives do, and once for each tensor of a list. From torch 2.8 on,
# the C++ part keeps the Python part alive.
_dropped: "collections.deque[Operation]" = collections.deque(maxlen=1024)


def _without_traceback(error: Optional[Exception]) -> Optional[Exception]:
    """A copy of the error without its traceback. The program may hold the error itself, which has its traceback."""
    try:
        return copy.copy(error)
    except Exception:  # the constructor of a class may need other arguments
        return RuntimeError(str(error))


class Operation(_TorchWork):
    """An operation. It lives until it is done, even if the program drops it."""

    def __init__(self, verb: str, works: Sequence[Work], tensors: List[torch.Tensor], finish: Callable[[], None],
                 limit: timedelta, callbacks: Completer, source: int = -1) -> None:
        """`callbacks`: runs callbacks one after the other, except for operations that a callback has started."""
        super().__init__()
        self._verb = verb
        self._limit = limit
        self._works, self._tensors, self._finish = works, tensors, finish
        self._source = source
        self._error: Optional[Exception] = None
        self._done = threading.Event()
        self._over: torch.futures.Future = torch.futures.Future()
        self._lock = threading.Lock()  # guards the next two attributes
        self._is_watched = False  # the program has a future, which may have callbacks
        self._is_over = False  # the future is complete, or will be at once
        self._late_at = 0.0
        self._limited: "Optional[collections.deque[Operation]]" = None
        # A callback may wait for this operation, and blocks the thread for callbacks meanwhile.
        self._calls_back_alone = _this_thread.runs_callbacks
        self._callbacks = Completer() if self._calls_back_alone else callbacks

    def __del__(self, keep: Callable[[Any], None] = _dropped.append) -> None:
        if hasattr(self, "_calls_back_alone"):  # the constructor has not failed
            self._works, self._tensors, self._finish = (), [], lambda: None
            self._error = _without_traceback(self._error)
            keep(self)

    def limit_future(self, limited: "collections.deque[Operation]") -> None:
        """Also ends the wait for the future after the limit, counted from now.

        Args:
            limited: the unfinished operations of this order that have such a limit. The first of them checks the limits
                of all.
        """
        self._late_at = time.monotonic() + self._limit.total_seconds()
        self._limited = limited
        limited.append(self)

    def _begin(self) -> None:
        """Called by the completer before it waits."""

    def complete(self) -> None:
        """Called once, by the completer."""
        try:
            self._begin()
            for work in self._works:
                self._wait_for(work)
            self._finish()
        except Exception as error:  # for the threads that wait
            self._error = error
        if self._limited is not None:
            self._limited.remove(self)
        self._done.set()
        self._complete_future()

    def _wait_for(self, work: Work) -> None:
        while self._limited is not None:
            with contextlib.suppress(TimeoutError):
                work.wait(self._seconds_to_next_limit())
                return
        work.wait()

    def _seconds_to_next_limit(self) -> float:
        """Completes the futures whose limit is over with an error; their operations go on. Returns the time until the
        next limit."""
        now = time.monotonic()
        limited = list(self._limited or ())
        for each in limited:
            if each._late_at <= now:
                each._complete_future()
        left = [each._late_at - now for each in limited if each._late_at > now]
        # A new operation may be added at any moment, with the whole limit left.
        return min(left + [self._limit.total_seconds(), threading.TIMEOUT_MAX])

    def _complete_future(self) -> None:
        with self._lock:
            if self._is_over:
                return
            self._is_over = True
            # Callbacks of earlier operations must run first, even before a callback that the program is about to add.
            if not self._is_watched and self._callbacks.is_idle():
                self._over.set_result(None)
                return
        future = _CompletedFuture(self._over)
        try:
            self._callbacks.add(future)
        except RuntimeError:  # no more threads can be started
            future.complete()
        if self._calls_back_alone:
            self._callbacks.stop()

    def _outcome(self, _: Any) -> List[torch.Tensor]:
        if not self._done.is_set():
            raise self._late(self._limit)
        if self._error is not None:
            raise self._error
        return self._tensors

    def _late(self, limit: timedelta) -> RuntimeError:
        reason = "another rank has not called it yet, or is slow"
        if self._verb == "recv":
            reason = "nothing has been sent yet, or the sender is slow"
        longer = "" if limit != self._limit else (". To wait longer, give init_process_group() or new_group() a longer "
                                                  "timeout=")
        return RuntimeError(f"{self._describe()} is not done, but the timeout of {limit} is over: {reason}. After "
                            f"ANELLO_STALL_TIME a warning names a rank that is late{longer}")

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
        """Blocks until the operation is done. Ctrl-C ends the wait at once; a timeout of zero means the group's
        timeout."""
        self._claim()
        limit = timeout or self._limit
        if not self._done.wait(min(limit.total_seconds(), threading.TIMEOUT_MAX)):
            raise self._late(limit)
        if self._error is not None:
            raise self._error
        return True

    def _describe(self) -> str:
        """Describes the operation as the engine's errors do: "allreduce of 7 float64"."""
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
        """The group rank of the sender of the received message; -1 before the message has come, or if nothing is
        received."""
        return self._source

    def _source_rank(self) -> int:  # torch.distributed calls it by this name
        return self.source_rank()

    def get_future(self) -> torch.futures.Future:
        self._claim()
        with self._lock:
            self._is_watched = True
        # Does not use set_exception(): torch's C++ code, such as that of DistributedDataParallel, would take the
        # exception for the list of tensors, and crash.
        return self._over.then(self._outcome)


class AnySource:
    """The other ranks of a group, for receives from any rank. This rank polls them in turn, so that no sender waits
    forever."""

    _FIRST_PAUSE_S, _LONGEST_PAUSE_S = 50e-6, 1e-3

    def __init__(self, group: Group) -> None:
        self._group = group
        self._last = group.rank

    def receive(self, buffer: Any, options: Dict[str, Any]) -> Tuple[int, Work]:
        """Starts to receive from the first rank that has sent something, and returns that rank. Blocks until then.

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
    """A receive from the rank that sends first."""

    def __init__(self, any_source: AnySource, buffer: torch.Tensor, options: Dict[str, Any], *operation: Any) -> None:
        super().__init__("recv", [], *operation)
        self._any_source: Optional[AnySource] = any_source
        self._options = options
        self._buffer: Optional[torch.Tensor] = buffer

    def _describe(self) -> str:
        return super()._describe() + (" from any rank" if self._source < 0 else "")

    def _begin(self) -> None:
        any_source, buffer, self._any_source, self._buffer = self._any_source, self._buffer, None, None
        assert any_source is not None
        self._source, work = any_source.receive(buffer, self._options)
        self._works = [work]
