"""Errors of the engine as exceptions, which name the rank at fault and the remedy."""
from __future__ import annotations

import linecache
import re
import sys
from types import TracebackType
from typing import Any, Dict, Optional, Type


class Error(RuntimeError):
    """An error of the engine.

    Attributes:
        code: the kind of error, for example "rank_dead". The kinds are named like anello_status in anello.h.
        rank: the rank of the world that is at fault; None if that is not determined.
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
    """A rank died, hangs, left, or ended the world; `rank` is its number."""


class Unsupported(Error, NotImplementedError):
    """This build or this machine does not support the call."""


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


def first_report(error: BaseException) -> bool:
    """Notes on an error that the other ranks have received its reason. Returns False if this was noted before."""
    noted = vars(error).get("_is_reported", False)
    vars(error)["_is_reported"] = True
    return not noted


def _library(trace: TracebackType) -> str:
    return trace.tb_frame.f_globals.get("__name__", "").split(".")[0]


_CALLED_ATTRIBUTE = re.compile(r"\.(rank|size|local_rank|local_size|node_rank|node_count|members|layout)\s*\(\s*\)")


def _explain_call(error: Any, trace: Optional[TracebackType]) -> None:
    """Completes the message if an attribute of a group was called like a method, as in Horovod."""
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is not None and re.fullmatch("'(int|list|str)' object is not callable", str(error)):
        line = linecache.getline(trace.tb_frame.f_code.co_filename, trace.tb_lineno)
        called = _CALLED_ATTRIBUTE.search(line)
        if called:
            error.args = (f"{error}: {called[1]} is an attribute in anello, so write .{called[1]} without ()",)


def _end_at_call(trace: Optional[TracebackType]) -> None:
    """Removes the frames below the program's call into this package, even if torch made the call for the program."""
    frames = []
    while trace is not None:
        frames.append(trace)
        trace = trace.tb_next
    ours = __name__.split(".")[0]
    if not frames or _library(frames[-1]) != ours:
        return
    while frames and _library(frames[-1]) in (ours, "torch"):
        frames.pop()
    if frames:
        frames[-1].tb_next = None


def _show(kind: Any, error: Any, trace: Optional[TracebackType]) -> None:
    """For sys.excepthook: ends the traceback of an error of the engine or of an argument at the program's call."""
    if isinstance(error, TypeError):
        _explain_call(error, trace)
    if isinstance(error, (Error, OverflowError, TypeError, ValueError)):
        _end_at_call(trace)
    _excepthook(kind, error, trace)


_excepthook, sys.excepthook = sys.excepthook, _show
