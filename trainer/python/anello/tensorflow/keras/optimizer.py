"""DistributedOptimizer(): makes an optimizer of tf.keras a distributed one."""
from __future__ import annotations

import types
from typing import Any, Iterable, Sequence, Type, Union

import tensorflow as tf

from ...horovod.process_sets import ProcessSet, global_process_set
from ...horovod.reductions import Average, Sum, reduction
from ..compression import Compression
from ..gradients import Gradients, Groups, groups_of
from ..tape import layers_of
from . import keras2, keras3
from .ranks import Settings
from .same_start import compare_in_fit

if hasattr(tf.keras.optimizers.Optimizer, "apply"):
    _distributed: Any = keras3.Distributed
    keras3.adapt_keras()
else:
    _distributed = keras2.Distributed


def DistributedOptimizer(optimizer: Any, name: Union[None, str] = None, device_dense: str = "", device_sparse: str = "",
                         compression: Any = Compression.none, sparse_as_dense: bool = False,
                         gradient_predivide_factor: float = 1.0, op: int = Average, backward_passes_per_step: int = 1,
                         average_aggregated_gradients: bool = False, num_groups: int = 0, groups: Groups = None,
                         process_set: ProcessSet = global_process_set, scale_local_gradients: bool = True) -> Any:
    """Changes the optimizer, and returns it: from now on its steps use the gradients of all ranks.

    The optimizer's class becomes a subclass with the same name. So the optimizer keeps its state, and a model that is
    saved with the optimizer can be loaded without Anello. Model.fit() needs nothing else. In a custom loop,
    apply_gradients() combines the gradients in Keras 3, and minimize() in Keras 2. If the loop has a
    DistributedGradientTape, do not wrap the optimizer. If the ranks train different variables, a step raises Mismatch
    on all ranks. If only the values of the variables differ, rank 0 warns once after the first steps of Model.fit().

    Args:
        name: the beginning of the names of operations, the same on all ranks.
        device_dense, device_sparse: accepted and not needed.
        compression: Compression.none, .fp16, .bf16, or an object with compress() and decompress().
        sparse_as_dense: True: adds up tf.IndexedSlices as dense tensors; False: gathers them.
        gradient_predivide_factor: for averages: gradients are divided by this factor before they are added up, and the
            sum is multiplied by it.
        op: Average or Sum.
        backward_passes_per_step: the gradients of this number of passes are added up before they are sent; `iterations`
            counts passes.
        average_aggregated_gradients: whether the sums over these passes are divided by the number of passes.
        num_groups: an older name of groups.
        groups: a number of groups of gradients, or lists of variables: a group is one operation. Otherwise gradients
            are sent in buckets of HOROVOD_FUSION_THRESHOLD bytes.
        scale_local_gradients: whether gradients of variables that were passed to register_local_var() are divided by
            the number of ranks.
    """
    gradients = {"op": op, "compression": compression, "sparse_as_dense": sparse_as_dense,
                 "gradient_predivide_factor": gradient_predivide_factor, "groups": groups_of(groups, num_groups),
                 "process_set": process_set, "scale_local_gradients": scale_local_gradients}
    _check(optimizer, op, backward_passes_per_step)
    Gradients(**gradients)  # raises if an argument is wrong, before the optimizer is changed
    settings = Settings(gradients, backward_passes_per_step, average_aggregated_gradients, name)
    object.__setattr__(optimizer, "__class__", _subclass(optimizer, settings))
    optimizer.begin()
    compare_in_fit()
    return optimizer


def _check(optimizer: Any, op: int, passes: int) -> None:
    if isinstance(optimizer, _distributed):
        raise ValueError("the optimizer is a DistributedOptimizer already")
    kinds = [tf.keras.optimizers.Optimizer]
    if _distributed is keras2.Distributed:
        kinds.append(tf.keras.optimizers.legacy.Optimizer)
    of_this_keras(optimizer, kinds, "optimizer")
    if reduction(op, of="gradients") not in (Average, Sum):
        raise ValueError("op must be hvd.Average or hvd.Sum for gradients")
    if passes < 1:
        raise ValueError(f"backward_passes_per_step must be at least 1, but is {passes}")


def of_this_keras(made: Any, kinds: Sequence[Any], what: str) -> Any:
    """Returns the object. Raises TypeError if the object's type is not in `kinds`, for example because the object comes
    from another Keras."""
    if not isinstance(made, tuple(kinds)):
        kind = type(made)
        raise TypeError(f"{what} must be one of tf.keras, which is Keras {getattr(tf.keras, '__version__', 2)}, not "
                        f"{kind.__module__}.{kind.__qualname__}: use tf.keras instead of another Keras beside it")
    return made


def _subclass(optimizer: Any, settings: Settings) -> Type[Any]:
    """A class that is saved as the optimizer's own class."""
    plain = type(optimizer)
    module = tf.keras.optimizers.serialize(optimizer).get("module") or plain.__module__

    def fill(names: Any) -> None:
        names.update(_settings=settings, __module__=module, __qualname__=plain.__qualname__, __doc__=plain.__doc__)

    made = types.new_class(plain.__name__, (_distributed, plain), exec_body=fill)
    package, found, registered = tf.keras.utils.get_registered_name(plain).rpartition(">")
    if found:
        # Both classes have the same saved name; Keras loads the class that was registered last.
        for each in (made, plain):
            tf.keras.utils.register_keras_serializable(package, registered)(each)
    return made


def PartialDistributedOptimizer(optimizer: Any, name: Union[None, str] = None, device_dense: str = "",
                                device_sparse: str = "", compression: Any = Compression.none,
                                sparse_as_dense: bool = False, gradient_predivide_factor: float = 1.0,
                                op: int = Average, backward_passes_per_step: int = 1,
                                average_aggregated_gradients: bool = False, groups: Groups = None,
                                process_set: ProcessSet = global_process_set,
                                local_layers: Union[None, Any, Iterable[Any]] = None,
                                scale_local_gradients: bool = True) -> Any:
    """Does the same as DistributedOptimizer(), but each rank keeps its own gradients of `local_layers`.

    Args:
        local_layers: a layer of Keras, or a list of layers. ValueError if a layer has no variables yet.
    """
    layers = layers_of(local_layers)
    for layer in layers:
        if not layer.built:
            raise ValueError(f"the local layer {layer.name} has no variables yet: build the model first")
    made = DistributedOptimizer(optimizer, name, device_dense, device_sparse, compression, sparse_as_dense,
                                gradient_predivide_factor, op, backward_passes_per_step, average_aggregated_gradients,
                                0, groups, process_set, scale_local_gradients)
    for layer in layers:
        for variable in layer.trainable_weights:
            made.register_local_var(variable)
    return made
