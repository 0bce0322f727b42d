"""Handles of operations, without an operation."""
import math

import pytest

from anello._library import C
from anello.work import Pending


class DoneAfterTheLimit(Pending):
    """An operation that becomes done between the end of a wait with a limit and the next check."""

    def __init__(self):
        super().__init__(None, None)
        self.answers = [C.TIMED_OUT, 0]

    def _is_done(self):
        return True

    def _wait_for(self, limit_ms):
        return self.answers.pop(0)

    def _result(self):
        return "result"


def test_an_operation_that_is_done_just_after_the_limit_is_no_error():
    assert DoneAfterTheLimit().wait() == "result"


class NeverDone(Pending):
    """An operation that records how long a wait for it may take."""

    def __init__(self):
        super().__init__(None, None)
        self.limits = []

    def _is_done(self):
        return False

    def _wait_for(self, limit_ms):
        self.limits.append(limit_ms)
        if len(self.limits) == 3:
            raise KeyboardInterrupt
        return C.TIMED_OUT


@pytest.mark.parametrize("timeout", [-0.1, -5, -math.inf, 0])
def test_a_limit_in_the_past_ends_at_once(timeout):
    made = NeverDone()
    with pytest.raises(TimeoutError):
        made.wait(timeout)
    assert made.limits == [0]
    made._let_go()


def test_an_infinite_limit_is_none_and_nan_is_refused():
    made = NeverDone()
    with pytest.raises(KeyboardInterrupt):
        made.wait(math.inf)
    with pytest.raises(ValueError, match="timeout must be a number of seconds, or None"):
        made.wait(math.nan)
    assert len(made.limits) == 3
    made._let_go()
