"""The functions and constants of libanello.so: `lib` has the functions of anello.h and gpu.h, `C` their constants.

A function that fails raises the exception of `anello.errors`. Calls release Python's global lock.
"""
from __future__ import annotations

import ctypes
import pathlib
from types import SimpleNamespace
from typing import Any, Callable, Dict

from . import _header
from .errors import error, first_report

_FOLDER = pathlib.Path(__file__).parent


def _load(name: str, how: Callable[[pathlib.Path], Any]) -> Any:
    """Loads a file that is present in an installed package, but not in the source tree."""
    try:
        return how(_FOLDER / name)
    except OSError as why:
        raise ImportError(f"anello cannot load its library: {why}. Install the package (pip install ./trainer/python, "
                          "in Anello's source tree), and do not import it from its sources") from None


def text_of(name: str) -> str:
    """A text file of the package."""
    return _load(name, lambda path: path.read_text(encoding="utf-8"))


header = _header.read("".join(map(text_of, ("anello.h", "gpu.h"))))
C = SimpleNamespace(**{name[len("ANELLO_") :]: value for name, value in header.constants.items()})

Input = header.structs["anello_input"]
Tensor = header.structs["anello_tensor"]


class _Functions:
    """The functions of the library. The first use of a function declares its types for ctypes."""

    # The results of these functions are not checked here: their callers look at the status, because ANELLO_TIMED_OUT is
    # not an error.
    _WAITS = ("anello_work_wait", "anello_work_wait_for", "anello_named_wait")

    def __init__(self) -> None:
        self._dll = _load("libanello.so", lambda path: ctypes.CDLL(str(path)))

    def __getattr__(self, name: str) -> Any:
        function = getattr(self._dll, name)
        function.restype, function.argtypes = header.functions[name]
        if name in header.fallible and name not in self._WAITS:
            function.errcheck = check
        setattr(self, name, function)
        return function


def check(status: int, *_: Any) -> int:
    """Raises the calling thread's last error unless the status is ANELLO_OK."""
    if status == 0:
        return status
    rank = lib.anello_last_error_rank()
    message = lib.anello_last_error().decode("utf-8", "replace")
    raised = error(lib.anello_status_name(status).decode(), message, None if rank < 0 else rank)
    first_report(raised)  # the library has reported this error to the other ranks
    raise raised


lib = _Functions()
_templates: Dict[str, Any] = {}


def default(struct: str) -> Any:
    """A struct as its ..._INIT macro makes it: default("anello_options")."""
    if struct not in _templates:
        _templates[struct] = _header.default(header, struct)
    template = _templates[struct]
    return type(template).from_buffer_copy(template)
