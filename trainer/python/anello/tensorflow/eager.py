"""Operations outside of graphs. They block the calling thread. On the main thread, Ctrl-C interrupts them."""
from __future__ import annotations

import functools
from typing import Any, Callable, Optional, Sequence, Tuple

import numpy
import tensorflow as tf
from tensorflow import executing_eagerly

from .. import errors
from .._library import check
from ..arguments import factor, text
from ..errors import first_report
from ..horovod.process_sets import ProcessSet, require_set
from ..horovod.refusals import submitting
from . import library
from .errors import as_tensorflow

_NAMES_KEPT = 1024
# This name is looked up once, because each access to a name of `tf` takes a microsecond.
_is_synchronous = tf.config.experimental.get_synchronous_execution
_set_synchronous = tf.config.experimental.set_synchronous_execution


class preparing(submitting):
    """A block in which a call is prepared. If it raises, the operation also fails on the other ranks.

    Does nothing in a graph.
    """

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if error is not None and executing_eagerly():
            super().__exit__(kind, error, trace)


def run(op: Callable[..., Any], verb: str, sent: Sequence[tf.Tensor], name: Optional[str], process_set: ProcessSet,
        prescale: float = 1.0, postscale: float = 1.0, require: Callable[[], Any] = lambda: None,
        **arguments: Any) -> Any:
    """Calls a function of the library, and returns its result. If it fails on this rank, the other ranks fail too.

    Args:
        sent: the tensors to send.
        name: the operation's name; None: the operation gets a number instead.
        prescale, postscale: the factors of a reduction.
        require: checks the other arguments, and raises if one is wrong.
    """
    with as_tensorflow(), submitting(verb, name, process_set):
        for each in sent:
            _require_sendable(each)
        number = _number(process_set)
        require()
        now = _in_now(text("name", name), factor("prescale_factor", prescale), factor("postscale_factor", postscale))
        library.forget_failure()
        try:
            with _synchronous():
                return op(**arguments, now=now, distinct="", waits=True, process_set=number)
        except tf.errors.OpError as error:
            raise _reason(error) from None


def factors_in(now: tf.Tensor) -> Tuple[float, float]:
    """Reads the factors before and after a reduction from the input `now`, in which run() passes them."""
    prescale, postscale = now[:4].numpy().view(numpy.float64)
    return float(prescale), float(postscale)


def require_root(root_rank: int, process_set: ProcessSet) -> None:
    """Raises InvalidArgument if the root, a rank of the world, is not a member of the process set."""
    try:
        process_set.rank_of(root_rank)
    except ValueError as error:
        raise errors.InvalidArgument(f"root_rank: {error}", "invalid_argument") from None


def _number(process_set: ProcessSet) -> int:
    try:
        _ = require_set(process_set).agenda  # raises if this process is not a member
        return library.number(process_set)
    except ValueError as error:
        raise errors.InvalidArgument(str(error), "invalid_argument") from None


class _synchronous:
    """A block in which TensorFlow runs functions on this thread, and raises their errors here."""

    def __enter__(self) -> None:
        self._was = _is_synchronous()
        if not self._was:
            _set_synchronous(True)

    def __exit__(self, *_: Any) -> None:
        if not self._was:
            _set_synchronous(False)


def _require_sendable(tensor: tf.Tensor) -> None:
    if tensor.dtype not in library.types:
        remedy = ("use hvd.broadcast_object() or hvd.allgather_object()" if tensor.dtype == tf.string
                  else "cast them, or send their parts")
        raise TypeError(f"tensors of {tensor.dtype.name} cannot be sent: {remedy}")


@functools.lru_cache(_NAMES_KEPT)
def _in_now(name: Optional[bytes], prescale: float, postscale: float) -> tf.Tensor:
    """Makes the input `now` for values that may differ from call to call: the words of both factors, and the bytes of
    the name.

    These values are not attributes, because TensorFlow would keep a kernel for each value of an attribute.
    """
    factors = numpy.array([prescale, postscale], numpy.float64).view(numpy.int32)
    letters = numpy.frombuffer(name or b"", numpy.uint8).astype(numpy.int32)
    with tf.init_scope(), tf.device("CPU:0"):
        return tf.constant(numpy.concatenate([factors, letters]))


def _reason(error: tf.errors.OpError) -> BaseException:
    """The reason why a function of the library failed, as an exception that the engine's calls raise."""
    status = library.take_failure()
    if isinstance(error, tf.errors.CancelledError):
        try:
            library.raise_interruption()
        except BaseException as interruption:
            first_report(interruption)  # other ranks need no report: the operation was submitted, and goes on
            return interruption
    try:
        check(max(status, 0))
    except Exception as failure:
        return failure
    reason = error
    if isinstance(error, tf.errors.InvalidArgumentError):
        reason = errors.InvalidArgument(error.message, "invalid_argument")
    if status != 0:
        first_report(reason)  # the library has reported this error to the other ranks
    return reason
