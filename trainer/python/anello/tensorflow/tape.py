"""Tapes that return the gradients of all ranks."""
from __future__ import annotations

from typing import Any, Iterable, List, Tuple, Union

import tensorflow as tf

from ..horovod.process_sets import ProcessSet, global_process_set
from ..horovod.reductions import Average
from .compression import Compression
from .gradients import Gradients, Groups, groups_of


class _Distributed(tf.GradientTape):
    """The base class that DistributedGradientTape inserts before the class of the wrapped tape."""

    _of_all_ranks: Gradients

    def register_local_source(self, source: Any) -> None:
        """Each rank keeps its own gradients of this source. With scale_local_gradients they are divided by the number
        of ranks."""
        self._of_all_ranks.register_local(source)

    @tf.autograph.experimental.do_not_convert
    def gradient(self, target: Any, sources: Any, output_gradients: Any = None, use_generic_names: bool = False,
                 **options: Any) -> Any:
        """Does the same as tf.GradientTape.gradient(), with the gradients of all ranks. Blocks outside of graphs.

        Args:
            use_generic_names: True: operations are named by their number. This is for ranks whose graphs differ, or
                that have made different numbers of Keras layers before. False: operations in a graph are named after
                the gradients.
        """
        gradients = super().gradient(target, sources, output_gradients, **options)
        name = "grad" if use_generic_names else None
        every = tf.nest.flatten(sources)
        self._of_all_ranks.compare(every)
        combined = self._of_all_ranks.combine(tf.nest.flatten(gradients), every, name)
        return tf.nest.pack_sequence_as(sources, combined)

    def get_local_and_global_gradients(self, target: Any, sources: Any, output_gradients: Any = None,
                                       use_generic_names: bool = False) -> Tuple[List[Any], List[Any]]:
        """Two lists of pairs (source, gradient): the first for registered local sources, the second for all others."""
        gradients = self.gradient(target, sources, output_gradients, use_generic_names)
        pairs = list(zip(sources, gradients))
        return ([pair for pair in pairs if self._of_all_ranks.is_local(pair[0])],
                [pair for pair in pairs if not self._of_all_ranks.is_local(pair[0])])


@tf.autograph.experimental.do_not_convert
def DistributedGradientTape(gradtape: tf.GradientTape, device_dense: str = "", device_sparse: str = "",
                            compression: Any = Compression.none, sparse_as_dense: bool = False, op: int = Average,
                            gradient_predivide_factor: float = 1.0, num_groups: int = 0, groups: Groups = None,
                            process_set: ProcessSet = global_process_set,
                            scale_local_gradients: bool = True) -> Any:
    """A tape whose gradient() returns the gradients of all ranks. The wrapped tape goes on recording.

    Args: see Gradients. The arguments for devices are accepted and not needed; num_groups is an older name of groups.
    """
    if not isinstance(gradtape, tf.GradientTape):
        raise TypeError(f"gradtape must be a tf.GradientTape, not {type(gradtape).__name__}")
    if isinstance(gradtape, _Distributed):
        raise ValueError("the tape is a DistributedGradientTape already")
    kind = type(gradtape)
    made: Any = object.__new__(type(kind.__name__, (_Distributed, kind), {}))
    made.__dict__ = gradtape.__dict__  # both objects are one tape, so either of them may start and stop it
    made._of_all_ranks = Gradients(op, compression, sparse_as_dense, gradient_predivide_factor,
                                   groups_of(groups, num_groups), process_set, scale_local_gradients)
    return made


@tf.autograph.experimental.do_not_convert
def PartialDistributedGradientTape(gradtape: tf.GradientTape, device_dense: str = "", device_sparse: str = "",
                                   compression: Any = Compression.none, sparse_as_dense: bool = False,
                                   op: int = Average, gradient_predivide_factor: float = 1.0, num_groups: int = 0,
                                   groups: Groups = None, process_set: ProcessSet = global_process_set,
                                   local_layers: Union[None, Any, Iterable[Any]] = None,
                                   scale_local_gradients: bool = True) -> Any:
    """Does the same as DistributedGradientTape(), but each rank keeps its own gradients of `local_layers`.

    Args:
        local_layers: a layer of Keras, or a list of layers.
    """
    tape = DistributedGradientTape(gradtape, device_dense, device_sparse, compression, sparse_as_dense, op,
                                   gradient_predivide_factor, num_groups, groups, process_set, scale_local_gradients)
    for layer in layers_of(local_layers):
        for variable in layer.trainable_weights:
            tape.register_local_source(variable)
    return tape


def layers_of(given: Union[None, Any, Iterable[Any]]) -> List[Any]:
    """A layer, several layers, or None, as a list. ValueError if an element is not a layer."""
    layers = [] if given is None else [given] if isinstance(given, tf.keras.layers.Layer) else list(given)
    if not all(isinstance(each, tf.keras.layers.Layer) for each in layers):
        raise ValueError("local_layers must be layers of tf.keras")
    return layers
