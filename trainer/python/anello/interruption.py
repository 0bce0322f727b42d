"""Makes blocking calls of the library that Ctrl-C and other signals can end.

Python runs the handlers of signals only on the main thread, between its own instructions. So another thread makes the
call, and the main thread waits for it.
"""
from __future__ import annotations

import contextlib
import ctypes
import threading
from typing import Any, Callable, List, Optional, TypeVar

T = TypeVar("T")


def interruptible(call: Callable[[], T], interrupt: Callable[[], None], discard: Callable[[T], Any]) -> T:
    """Returns call(). If the handler of a signal raises during the call, calls interrupt(), and raises the handler's
    exception.

    Args:
        interrupt: makes call() end soon; the main thread waits a second for it.
        discard: takes the result of a call that was interrupted.
    """
    if threading.current_thread() is not threading.main_thread():
        return call()
    results: List[T] = []  # holds the result until one of the two threads takes it
    failures: List[BaseException] = []
    interrupted, ended = threading.Event(), threading.Event()

    def discard_result() -> None:
        with contextlib.suppress(IndexError):  # only one thread gets it from pop()
            discard(results.pop())

    def run() -> None:
        try:
            results.append(call())
            if interrupted.is_set():
                discard_result()
        except BaseException as error:  # raised again in the thread that waits
            failures.append(error)
        finally:
            ended.set()

    threading.Thread(target=run, name="anello.init", daemon=True).start()
    try:
        ended.wait()
    except BaseException:
        interrupted.set()
        interrupt()
        try:
            # Until then the other ranks can receive the reason; a call that waits for a key of the store may take
            # longer.
            ended.wait(1)
        finally:
            discard_result()  # run() may have read `interrupted` before it was set
        raise
    if failures:
        raise failures[0].with_traceback(None)
    return results.pop()


def made(config: Any, start: Callable[[Any, Any], Any], free: Callable[[Any], Any],
         interrupted: Optional[ctypes.c_int] = None) -> int:
    """The handle that `start(config, handle)` makes. `config` is an anello_config, which gets `interrupted`."""
    interrupted = ctypes.c_int(0) if interrupted is None else interrupted
    config.interrupted = ctypes.addressof(interrupted)

    def call() -> int:
        handle = ctypes.c_void_p()
        start(ctypes.byref(config), ctypes.byref(handle))
        return handle.value or 0

    def interrupt() -> None:
        interrupted.value = 1

    return interruptible(call, interrupt, free)
