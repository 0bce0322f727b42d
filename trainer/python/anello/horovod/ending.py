"""How the script of this process ended, and how its world must end."""
from __future__ import annotations

import sys
import threading
from typing import Any, Callable, NoReturn

from ..errors import Error
from ..world import World, script_failures

PATIENCE_S = 60.0  # how long a rank whose script has ended waits for the others


def end_with_script(world: World, end: Callable[[float], None], remedy: str,
                    leave: Callable[[World], None] = World.leave) -> None:
    """Called at exit: a script need not end its world. If the script has failed, the other ranks fail at once with the
    script's reason.

    If the script has not failed, the other ranks may still have much work that does not need this rank. Ranks that wait
    for this rank fail when it leaves.

    Args:
        end: ends the world regularly, and raises TimeoutError if the other ranks take longer than the given seconds.
        remedy: advice for a script that has less data than the other ranks.
        leave: leaves the world without waiting.
    """
    if script_failures:
        world.abort(script_failures[-1])
        leave(world)
        return
    try:
        end(PATIENCE_S)
    except TimeoutError:
        _say(f"rank {world.rank}'s script has ended. It waited {PATIENCE_S:g} s for the others, and leaves the world. "
             f"If it had less data than they have, {remedy}")
    except Error as error:
        if error.code != "rank_left":
            when = "when the world failed" if world.failure() else "without the others"
            _say(f"rank {world.rank}'s script had ended {when}: {error}")


def _say(line: str) -> None:
    print("anello:", line, file=sys.stderr, flush=True)


class _Exit(SystemExit):
    """The exception of sys.exit(). If nothing catches it, the interpreter reads `code` when no frame is left."""

    @property
    def code(self) -> Any:  # type: ignore[override]  # the interpreter only reads it
        """The status, or a message."""
        code = super().code
        good = code is None or isinstance(code, int) and code == 0
        if not good and sys._getframe().f_back is None:
            status = int(code) if isinstance(code, int) else f"1: {code}"
            script_failures.append(f"its script ended with status {status}")
        return code


def _exit(status: Any = None) -> NoReturn:
    # In a thread, sys.exit() ends only that thread. It prints nothing only if it raises SystemExit itself.
    raise (_Exit if threading.current_thread() is threading.main_thread() else SystemExit)(status)


def _quit(quitter: Any, code: Any = None) -> None:
    # The builtin exit() and quit() close standard input, and raise SystemExit without calling sys.exit().
    try:
        _quitter_call(quitter, code)
    except SystemExit:
        _exit(code)


# No documented hook sees how a script ended by SystemExit: the interpreter then does not call sys.excepthook, does not
# set sys.last_value, raises no audit event, and has dropped the exception when handlers of atexit run. Only on_exit(3)
# of the C library receives the status, but it runs after Python has ended, and the world must end before that.
sys.exit = _exit
_site = sys.modules.get("_sitebuiltins")  # missing without the module site
if _site is not None:
    # Changes the builtins' class, because a program may have replaced the builtins.
    _quitter_call, _site.Quitter.__call__ = _site.Quitter.__call__, _quit
