"""Warnings that show the line of the user's script that led to them."""
from __future__ import annotations

import os
import sys
import warnings

import torch

_NOT_THE_USERS = tuple(os.path.dirname(path) + os.sep for path in (os.path.dirname(__file__), torch.__file__))


def warn(message: str) -> None:
    """Warns with the line of the nearest caller outside this package and torch."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_NOT_THE_USERS):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, stacklevel=level)
