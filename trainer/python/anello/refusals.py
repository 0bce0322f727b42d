"""Reports calls that fail in Python: waiting ranks get the reason, as if the library had refused the call.

Nothing here changes or hides the error that the program gets.
"""
from __future__ import annotations

import contextlib
import functools
from typing import Any, Callable, ContextManager, Iterator, TypeVar, cast

from ._library import lib
from .arguments import readable
from .errors import first_report

Method = TypeVar("Method", bound=Callable[..., Any])


def report(error: Exception, refuse: Callable[[bytes], Any]) -> None:
    """Sends the reason to the other ranks by `refuse`, unless an inner call or the library has already sent it.

    Does nothing if the world has ended, or if the call names no ranks: then no rank waits.
    """
    if first_report(error):
        with contextlib.suppress(Exception):
            refuse(readable(f"{type(error).__name__}: {error}"))


@contextlib.contextmanager
def reporting(refuse: Callable[[bytes], Any]) -> Iterator[None]:
    """A block that prepares and makes a call. If the block raises, sends the error to the other ranks by `refuse`."""
    try:
        yield
    except Exception as error:
        report(error, refuse)
        raise


def sending_to(group: Any, to: int) -> ContextManager[None]:
    """A block that sends to a rank of a group: if it fails before the send, that rank gets the reason."""
    return reporting(lambda reason: lib.anello_refuse_send(group._handle, to, reason))


def receiving_from(group: Any, source: int) -> ContextManager[None]:
    """A block that receives from a rank of a group: if it fails before the receive, that rank gets the reason."""
    return reporting(lambda reason: lib.anello_refuse_recv(group._handle, source, reason))


def collective(method: Method) -> Method:
    """Decorates a method that starts a collective of a group: if it raises, self._refuse() reports the error to the
    group's other ranks."""

    @functools.wraps(method)
    def call(self: Any, *arguments: Any, **options: Any) -> Any:
        try:
            return method(self, *arguments, **options)
        except Exception as error:
            report(error, self._refuse)
            raise

    return cast(Method, call)
