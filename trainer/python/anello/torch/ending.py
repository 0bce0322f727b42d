"""How the script of this process ended, and how its world ends then."""
from __future__ import annotations

import sys
from typing import Any, Callable, List

from ..errors import RankFailed
from ..world import World

PATIENCE_S = 60.0  # a rank whose script has ended waits so long for the others
_uncaught: List[str] = []  # the exception that ended the script


def end_with_script(world: World, end: Callable[[float], None]) -> None:
    """For atexit: a script need not end its world. If an exception ended it, the other ranks are told which.

    Others may have much to do yet, without this rank. If they wait for it, they fail when it leaves.

    Args:
        end: ends the world in good order, and raises TimeoutError if the others take longer than the seconds given.
    """
    if _uncaught:
        world.abort(_uncaught[-1])
        world.leave()
        return
    try:
        end(PATIENCE_S)
    except TimeoutError:
        pass
    except RankFailed as error:
        if error.code != "rank_left":
            raise


def _note_uncaught(kind: Any, error: Any, trace: Any) -> None:
    _uncaught.append(f"{kind.__name__}: {error}")
    _excepthook(kind, error, trace)


_excepthook, sys.excepthook = sys.excepthook, _note_uncaught
