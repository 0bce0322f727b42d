"""Warnings that show the line of the user's script from which they came."""
from __future__ import annotations

import os
import sys
import warnings
from typing import List

_not_the_users: List[str] = [os.path.dirname(os.path.dirname(__file__)) + os.sep]


def skip(framework: str) -> None:
    """Makes warn() also skip callers in this module's folder: they are not the user's."""
    _not_the_users.append(os.path.dirname(framework) + os.sep)


def warn(message: str) -> None:
    """Warns, and shows the line of the nearest caller outside of this package and of the frameworks."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith(tuple(_not_the_users)):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, stacklevel=level)
