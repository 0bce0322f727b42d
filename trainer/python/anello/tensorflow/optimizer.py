"""Distributed optimizers of TensorFlow 1. The optimizers of Keras are in another module."""
from __future__ import annotations

from typing import Any, List, Optional, Tuple

import tensorflow as tf

from ..horovod.process_sets import ProcessSet, global_process_set
from ..horovod.reductions import Average
from .aggregation import Aggregation
from .compression import Compression
from .gradients import Gradients, Groups, groups_of


class _Distributed(tf.compat.v1.train.Optimizer):
    """Wraps an optimizer of tf.compat.v1: compute_gradients() returns the gradients of all ranks."""

    def __init__(self, optimizer: Any, name: str, use_locking: bool, gradients: Gradients, passes: int,
                 averages: bool, sparse_as_dense: bool) -> None:
        super().__init__(name=name, use_locking=use_locking)
        self._optimizer = optimizer
        self._of_all_ranks = gradients
        self._sparse_as_dense = sparse_as_dense
        self._agg_helper = Aggregation(gradients, passes, averages, name) if passes > 1 else None

    def register_local_var(self, var: Any) -> None:
        """Excludes the gradients of this variable: each rank keeps its own."""
        self._of_all_ranks.register_local(var)

    def compute_gradients(self, *arguments: Any, **options: Any) -> List[Tuple[Any, Any]]:
        """Does the same as the wrapped optimizer's method, with the gradients of all ranks."""
        pairs = self._optimizer.compute_gradients(*arguments, **options)
        gradients, variables = [each for each, _ in pairs], [each for _, each in pairs]
        if self._agg_helper is None:
            return list(zip(self._of_all_ranks.combine(gradients, variables), variables))
        if not self._sparse_as_dense and any(isinstance(each, tf.IndexedSlices) for each in gradients):
            raise ValueError("backward_passes_per_step adds gradients up, and one is a tf.IndexedSlices: give "
                             "sparse_as_dense=True")
        return list(zip(self._agg_helper.combine(gradients, variables), variables))

    def apply_gradients(self, grads_and_vars: Any, global_step: Any = None, name: Optional[str] = None) -> Any:
        """Calls the wrapped optimizer's method; if a step has several backward passes, only in the last pass."""
        pairs = list(grads_and_vars)

        def step() -> Any:
            return self._optimizer.apply_gradients(pairs, global_step=global_step, name=name)

        if self._agg_helper is None:
            return step()
        return self._agg_helper.apply(step, [each for each, _ in pairs], global_step)

    def get_slot(self, *arguments: Any, **options: Any) -> Any:
        """The wrapped optimizer's method."""
        return self._optimizer.get_slot(*arguments, **options)

    def get_slot_names(self, *arguments: Any, **options: Any) -> Any:
        """The wrapped optimizer's method."""
        return self._optimizer.get_slot_names(*arguments, **options)

    def variables(self, *arguments: Any, **options: Any) -> Any:
        """The wrapped optimizer's method."""
        return self._optimizer.variables(*arguments, **options)


def DistributedOptimizer(optimizer: Any, name: Optional[str] = None, use_locking: bool = False, device_dense: str = "",
                         device_sparse: str = "", compression: Any = Compression.none, sparse_as_dense: bool = False,
                         backward_passes_per_step: int = 1, op: int = Average, gradient_predivide_factor: float = 1.0,
                         average_aggregated_gradients: bool = False, num_groups: int = 0, groups: Groups = None,
                         process_set: ProcessSet = global_process_set, scale_local_gradients: bool = True) -> Any:
    """An optimizer whose steps use the gradients of all ranks.

    For an optimizer of Keras, calls anello.tensorflow.keras.DistributedOptimizer(). Other arguments: see Gradients.

    Args:
        optimizer: an optimizer of tf.compat.v1.train or tf.keras.
        backward_passes_per_step: the gradients of this number of passes are added up before they are sent.
        average_aggregated_gradients: whether the sums over these passes are divided by the number of passes.
    """
    combined = {"sparse_as_dense": sparse_as_dense, "op": op, "gradient_predivide_factor": gradient_predivide_factor,
                "groups": groups_of(groups, num_groups), "process_set": process_set, "compression": compression,
                "scale_local_gradients": scale_local_gradients}
    if not isinstance(optimizer, tf.compat.v1.train.Optimizer):
        from .keras import DistributedOptimizer as of_keras
        return of_keras(optimizer, name=name, backward_passes_per_step=backward_passes_per_step,
                        average_aggregated_gradients=average_aggregated_gradients, **combined)
    if backward_passes_per_step > 1 and tf.executing_eagerly():
        raise ValueError("an optimizer of tf.compat.v1 takes backward_passes_per_step in graphs only: use one of "
                         "tf.keras")
    return _Distributed(optimizer, name or f"Distributed{type(optimizer).__name__}", use_locking,
                        Gradients(**combined), backward_passes_per_step, average_aggregated_gradients, sparse_as_dense)
