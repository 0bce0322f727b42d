"""Errors of eager calls: those of the engine, which are those of TensorFlow too, as a graph raises them."""
from __future__ import annotations

from typing import Any, Callable, Optional, TypeVar

import tensorflow as tf

from .. import errors
from ..horovod import basics

HorovodInternalError = errors.Error


class _WithNode(tf.errors.OpError):
    """Adds to an error of the engine what TensorFlow's errors have."""

    def __init__(self, error: errors.Error, code: int) -> None:
        errors.Error.__init__(self, str(error), error.code, error.rank)  # type: ignore[arg-type]
        tf.errors.OpError.__init__(self, None, None, str(error), code)


class MismatchError(errors.Mismatch, _WithNode, tf.errors.FailedPreconditionError):
    """Ranks called an operation differently. The world goes on."""

    def __init__(self, error: errors.Error) -> None:
        _WithNode.__init__(self, error, tf.errors.FAILED_PRECONDITION)


class InvalidArgumentError(errors.InvalidArgument, _WithNode, tf.errors.InvalidArgumentError):
    """An argument of the call is wrong."""

    def __init__(self, error: errors.Error) -> None:
        _WithNode.__init__(self, error, tf.errors.INVALID_ARGUMENT)


class as_tensorflow:
    """A block whose errors of the engine are raised such that a script that expects TensorFlow's catches them."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if isinstance(error, errors.Mismatch):
            raise MismatchError(error) from None
        if isinstance(error, errors.InvalidArgument):
            raise InvalidArgumentError(error) from None


def of_world(error: tf.errors.OpError) -> Optional[errors.Error]:
    """The error that has ended the world, if it is why a function of TensorFlow has failed."""
    failure: Any = basics.world().failure() if basics.is_initialized() else None
    return failure if isinstance(error, tf.errors.InternalError) else None


Result = TypeVar("Result")


def raising_of_world(call: Callable[..., Result], *arguments: Any, **options: Any) -> Result:
    """Calls a function. Raises HorovodInternalError where the world has ended while a graph ran."""
    try:
        return call(*arguments, **options)
    except tf.errors.OpError as error:
        failure = of_world(error)
        if failure is None:
            raise
        raise failure from error
