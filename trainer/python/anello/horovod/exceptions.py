"""The exceptions that `hvd.elastic.run` survives."""
from ..errors import Error as HorovodInternalError

__all__ = ["HorovodInternalError", "HostsUpdatedInterrupt"]


class HostsUpdatedInterrupt(RuntimeError):
    """The world ends here as planned, because processes join or leave: nothing has to be restored.

    Attributes:
        skip_sync: true if the ranks have the same state, so that it need not be sent unless a process without this
            state joins.
    """

    def __init__(self, skip_sync: bool = False) -> None:
        super().__init__("the ranks of the job change here; hvd.elastic.run() goes on in the next world")
        self.skip_sync = skip_sync
