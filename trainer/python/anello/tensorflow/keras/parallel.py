"""parallelize(): turns a training of one process into one of many processes, in one call."""
from __future__ import annotations

import os
import shutil
import tempfile
from typing import Any, BinaryIO, Callable, List, NamedTuple, Optional, Union

import tensorflow as tf

from ...horovod import basics
from ...sharding import shard
from ...training import save_on_rank_0
from .. import gpus
from ..variables import of_optimizer, require_built
from .callbacks import MetricAverageCallback
from .models import turn_xla_off
from .optimizer import DistributedOptimizer, of_this_keras
from .schedules import rate_of
from .variables import give_all_ranks


class Parallel(NamedTuple):
    """A training on all ranks."""

    model: Any
    optimizer: Any
    rank: int
    size: int

    def shard(self, items: Any, *, uneven: str = "error") -> Any:
        """This rank's share of a dataset, an array or a list. All shares have the same size: see anello.shard()."""
        return shard(items, self.rank, self.size, uneven=uneven)

    def callbacks(self, checkpoint: Optional[str] = None) -> List[Any]:
        """Callbacks for fit(): after each epoch they average metrics over all ranks, and rank 0 writes the checkpoint.

        Pass them on all ranks, before callbacks that use metrics, such as EarlyStopping.

        Args:
            checkpoint: a path, as in save().
        """
        made: List[Any] = [MetricAverageCallback()]
        if checkpoint is not None:
            made.append(tf.keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: self.save(checkpoint)))
        return made

    def save(self, path: "Union[str, os.PathLike[str]]") -> None:
        """Writes the model on rank 0. The file is complete, or it is not written at all. All ranks call; blocks.

        Raises OSError on all ranks if the file cannot be written.

        Args:
            path: ends in .keras or .h5; .weights.h5 means that only the weights are written.
        """
        save_on_rank_0(basics.world(), path, lambda file: _write(self.model, os.path.basename(os.fspath(path)), file))


def parallelize(model: Union[Any, Callable[[], Any]], optimizer: Any = None, *, scale_learning_rate: bool = True,
                root_rank: int = 0, **options: Any) -> Parallel:
    """Joins the world, takes this rank's GPU, gives all ranks the root's variables, and averages gradients.

    Afterwards Model.fit() averages gradients; in a loop of your own, apply_gradients() averages gradients with Keras 3,
    and minimize() with tf-keras. All ranks call; blocks. In a world of one process, the function changes nothing, so a
    script needs no second version. The function is for eager execution, which is TensorFlow 2's default.

    Args:
        model: a model of Keras that has its variables, compiled or not, or a function that makes such a model. On hosts
            with several GPUs give a function: a GPU must be chosen before anything is made.
        optimizer: the optimizer. If it is omitted, the optimizer of compile() is used.
        scale_learning_rate: multiplies the learning rate by the number of ranks, because a step's batch is larger by
            this factor. Give False for an optimizer from a file, whose rate is scaled already, or for a schedule.
        options: see DistributedOptimizer.
    """
    if not tf.executing_eagerly():
        raise RuntimeError("parallelize() is for eager execution: in a graph use DistributedOptimizer() and "
                           "BroadcastGlobalVariablesHook")
    basics.init()
    gpus.keep_own(basics.local_rank())
    is_function = callable(model) and not hasattr(type(model), "trainable_variables")
    made = of_this_keras(model() if is_function else model, (tf.keras.Model,), "model")
    require_built(made)
    trained_by = DistributedOptimizer(_optimizer(made, optimizer), **options)
    if _compiled(made) is not None:
        turn_xla_off(made)
        made.train_function = None  # the old function may use the gradients of this rank only
    if scale_learning_rate and basics.size() > 1:
        _scale(trained_by, basics.size())
    trained_by.make_variables(made.trainable_variables)
    give_all_ranks([*made.weights, *of_optimizer(trained_by)], root_rank)
    return Parallel(made, trained_by, basics.rank(), basics.size())


def _compiled(model: Any) -> Any:
    """The optimizer that compile() was given, or None."""
    return getattr(model, "optimizer", None)


def _optimizer(model: Any, given: Any) -> Any:
    """The optimizer that fit() uses. If the model has no optimizer, the given one."""
    compiled = _compiled(model)
    if compiled is None and given is None:
        raise ValueError("the model has no optimizer: compile it, or give parallelize() one")
    # In mixed precision, compile() wraps the optimizer that the program passes.
    if given is not None and compiled is not None and given not in (compiled, getattr(compiled, "inner_optimizer", None)):
        raise ValueError("the model was compiled with another optimizer, which fit() would use: omit optimizer")
    return compiled if given is None else given


def _scale(optimizer: Any, factor: int) -> None:
    try:
        optimizer.learning_rate = rate_of(optimizer) * factor
    # Keras raises one of these errors if the rate is a schedule or a function.
    except (AttributeError, TypeError, ValueError) as error:
        raise ValueError("the learning rate is a schedule: multiply its rates by hvd.size(), and give "
                         "scale_learning_rate=False") from error


def _write(model: Any, name: str, file: BinaryIO) -> None:
    """Lets Keras write a file, and copies it to `file`. Keras writes only to a path; its ending decides the format."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, name)
        (model.save_weights if name.endswith(".weights.h5") else model.save)(path)
        with open(path, "rb") as written:
            shutil.copyfileobj(written, file)
