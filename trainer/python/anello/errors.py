"""Errors of the engine as exceptions: which rank is at fault, and what to do."""
from __future__ import annotations

import sys
from types import TracebackType
from typing import Any, Dict, Optional, Type


class Error(RuntimeError):
    """An error of the engine.

    Attributes:
        code: the kind of error, for example "rank_dead"; the names of anello_status in anello.h.
        rank: the rank of the world that is at fault, or None if none is known.
    """

    def __init__(self, message: str, code: str = "", rank: Optional[int] = None) -> None:
        super().__init__(message)
        self.code = code
        self.rank = rank


class InvalidArgument(Error, ValueError):
    """An argument of the call is wrong. Nothing has changed."""


class Mismatch(Error):
    """Ranks called different operations, or the same one with different arguments."""


class RankFailed(Error):
    """A rank died, hangs, left, or ended the world; `rank` says which."""


class Unsupported(Error, NotImplementedError):
    """This build or this machine cannot do it."""


_KINDS: Dict[str, Type[Error]] = {
    "invalid_argument": InvalidArgument,
    "mismatch": Mismatch,
    "rank_dead": RankFailed,
    "rank_left": RankFailed,
    "rank_silent": RankFailed,
    "aborted": RankFailed,
    "unsupported": Unsupported,
}


def error(code: str, message: str, rank: Optional[int]) -> Exception:
    """The exception for a failed call."""
    if code == "out_of_memory":
        return MemoryError(message)
    return _KINDS.get(code, Error)(message, code, rank)


def _is_ours(trace: TracebackType) -> bool:
    return trace.tb_frame.f_globals.get("__name__", "").split(".")[0] == __name__.split(".")[0]


def _show(kind: Any, error: Any, trace: Optional[TracebackType]) -> None:
    """For sys.excepthook: the traceback of an error of the engine or of an argument ends at the program's call."""
    call, each = None, trace if isinstance(error, (Error, TypeError, ValueError)) else None
    while each is not None:
        if not _is_ours(each):
            call = each
        each = each.tb_next
    if call is not None:
        call.tb_next = None
    _excepthook(kind, error, trace)


_excepthook, sys.excepthook = sys.excepthook, _show
