"""Handles of operations that are under way."""
from __future__ import annotations

import ctypes
import math
import os
import threading
from typing import Any, Callable, NoReturn, Optional, Set

from ._library import C, check, lib

_MAIN = threading.main_thread()
# The longest wait of the main thread inside the library: Python handles Ctrl-C between two waits.
_PATIENCE_MS = 100
_LONGEST_MS = 2**31 - 1  # the longest wait of another thread
# The unfinished operations. Their tensors must live, even if the program has dropped the handles.
_pending: Set["Pending"] = set()
_process = 0  # changes in a forked child: a child must not use its parent's handles


def _after_fork() -> None:
    global _process
    _process += 1
    _pending.clear()


os.register_at_fork(after_in_child=_after_fork)


def _limit_ms(timeout: float) -> Optional[int]:
    """Converts a limit in seconds for the library; None for no limit, which is given as infinity."""
    if timeout == math.inf:
        return None
    if math.isnan(timeout):
        raise ValueError("timeout must be a number of seconds, or None for no limit, not nan")
    return int(max(0.0, timeout) * 1000)


class Owned:
    """A handle of the library that is freed once, and only by the process that created it."""

    def __init__(self, handle: Optional[int], free: Callable[[Any], None]) -> None:
        self.handle = handle
        self._free = free
        self._made_by = _process

    def live(self, what: str) -> int:
        """The handle, for a call. ValueError if it was freed."""
        if not self.handle:
            raise ValueError(f"the {what} has ended")
        return self.handle

    def __reduce_ex__(self, _: Any) -> NoReturn:
        raise TypeError("a world, its groups and their operations cannot be pickled or copied, because they belong to "
                        "this process")

    def is_ours(self) -> bool:
        """False in a child made by fork(): there, a lock that another thread of the parent held is never released."""
        return self._made_by == _process

    def free(self) -> None:
        """Frees the handle now."""
        handle, self.handle = self.handle, None
        if handle and self.is_ours():
            self._free(handle)

    __del__ = free


class Pending:
    """An operation under way, and the tensors that it needs."""

    def __init__(self, owned: Owned, keep: Any) -> None:
        self._owned = owned
        self._keep = keep
        _pending.add(self)
        if len(_pending) % 64 == 0:
            for each in list(_pending):
                each.done()

    def _is_done(self) -> bool:
        raise NotImplementedError

    def _wait_for(self, limit_ms: int) -> int:
        """The status of the operation, or ANELLO_TIMED_OUT."""
        raise NotImplementedError

    def _wait_for_ever(self) -> int:
        """Waits without a limit, and returns the operation's status. Only the main thread gets signals, so other
        threads may wait in the library."""
        raise NotImplementedError

    def _result(self) -> Any:
        raise NotImplementedError

    def done(self) -> bool:
        """True if the operation is complete or has failed. Does not block."""
        if not self._is_done():
            return False
        self._let_go()
        return True

    def wait(self, timeout: Optional[float] = None) -> Any:
        """Blocks until the operation is done, and returns its output.

        Ctrl-C raises KeyboardInterrupt; the operation goes on. Raises TimeoutError if the operation is not done after
        `timeout` seconds, and at once if `timeout` is zero or negative.
        """
        left_ms = None if timeout is None else _limit_ms(timeout)
        longest_ms = _PATIENCE_MS if threading.current_thread() is _MAIN else _LONGEST_MS
        if left_ms is None and longest_ms == _LONGEST_MS:
            status = self._wait_for_ever()
            self._let_go()
            check(status)
            return self._result()
        while True:
            part = longest_ms if left_ms is None else min(left_ms, longest_ms)
            status = self._wait_for(part)
            if status != C.TIMED_OUT:
                break
            if self._is_done():  # the operation ended after the limit, or its own status is ANELLO_TIMED_OUT
                status = self._wait_for(0)
                break
            if left_ms is not None:
                left_ms -= part
                if left_ms <= 0:
                    raise TimeoutError(f"the operation is not done after {timeout} s")
        self._let_go()
        if status != 0:
            check(status)
        return self._result()

    def _let_go(self) -> None:
        _pending.discard(self)
        self._keep = None


class Work(Pending):
    """A handle of an operation of a `Group`."""

    def __init__(self, handle: Optional[int], result: Callable[[], Any], keep: Any) -> None:
        self._result = result  # type: ignore[method-assign]
        super().__init__(Owned(handle, lib.anello_work_free), keep)

    def _is_done(self) -> bool:
        return bool(lib.anello_work_done(self._owned.handle))

    def _wait_for(self, limit_ms: int) -> int:
        return lib.anello_work_wait_for(self._owned.handle, limit_ms)

    def _wait_for_ever(self) -> int:
        return lib.anello_work_wait(self._owned.handle)


def start(function: Callable[..., Any], *arguments: Any, result: Callable[[], Any], keep: Any) -> Work:
    """Calls a function of the library whose last argument is `anello_work** work`. wait() returns result()."""
    handle = ctypes.c_void_p()
    function(*arguments, ctypes.byref(handle))
    return Work(handle.value, result, keep)
