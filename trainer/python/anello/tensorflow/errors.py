"""Errors of eager calls. They have types of the engine and also TensorFlow's types, which graphs raise."""
from __future__ import annotations

from typing import Any, Callable, Optional, TypeVar

import tensorflow as tf

from .. import errors
from ..horovod import basics

HorovodInternalError = errors.Error


class _WithNode(tf.errors.OpError):
    """Adds the attributes of TensorFlow's errors to an error of the engine."""

    def __init__(self, error: errors.Error, code: int) -> None:
        errors.Error.__init__(self, str(error), error.code, error.rank)
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
    """A block that gives TensorFlow's types to the engine's errors too, so that scripts which expect TensorFlow's types
    catch them."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if isinstance(error, errors.Mismatch):
            raise MismatchError(error) from None
        if isinstance(error, errors.InvalidArgument):
            raise InvalidArgumentError(error) from None


def of_world(error: tf.errors.OpError) -> Optional[errors.Error]:
    """The error that ended the world, if TensorFlow's error came from it."""
    failure: Any = basics.world().failure() if basics.is_initialized() else None
    return failure if isinstance(error, tf.errors.InternalError) else None


Result = TypeVar("Result")


def raising_of_world(call: Callable[..., Result], *arguments: Any, **options: Any) -> Result:
    """Calls a function. Raises HorovodInternalError if the world ended while a graph ran."""
    try:
        return call(*arguments, **options)
    except tf.errors.OpError as error:
        failure = of_world(error)
        if failure is None:
            raise
        raise failure from error
