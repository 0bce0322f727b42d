"""Handles of operations, without an operation."""
from anello._library import C
from anello.work import Pending


class DoneAfterTheLimit(Pending):
    """An operation that becomes done between the end of a wait with a limit and the next question."""

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
