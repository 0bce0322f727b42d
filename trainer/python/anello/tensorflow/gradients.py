"""How the gradients of a training are combined: in buckets, which are sent during the backward pass."""
from __future__ import annotations

import itertools
import math
from typing import Any, Dict, List, Optional, Sequence, Set, Union

import tensorflow as tf

from ..horovod.compression import checked
from ..horovod.grouping import grouped
from ..horovod.process_sets import ProcessSet, global_process_set, require_set
from ..horovod.reductions import Average, reduction
from ..horovod.settings import bucket_bytes
from ..horovod.user_warning import warn
from .buckets import plan
from .compression import Compression, allreduces
from .graph import may_have_others, size_of
from .reduction import Reduction
from .same_start import compare
from .variables import key
from .verbs import sparse_allreduce

Groups = Union[None, int, Sequence[Sequence[Any]]]
Gradient = Union[None, tf.Tensor, tf.IndexedSlices]


class Gradients:
    """Combines the gradients of this rank with those of all ranks.

    In a graph, buckets are planned when the graph is made. A bucket is one operation; it starts when its gradients are
    ready.
    """

    def __init__(self, op: int = Average, compression: Any = Compression.none, sparse_as_dense: bool = False,
                 gradient_predivide_factor: float = 1.0, groups: Groups = None,
                 process_set: ProcessSet = global_process_set, scale_local_gradients: bool = True) -> None:
        """Raises ValueError or NotImplementedError if an argument is wrong. All ranks must pass the same arguments.

        Args:
            gradient_predivide_factor: for averages: gradients are divided by this factor before they are added up, and
                the sum is multiplied by it.
            groups: a number of groups of gradients, or lists of variables: a group is one operation. None: buckets of
                HOROVOD_FUSION_THRESHOLD bytes.
            scale_local_gradients: whether gradients of local variables are divided by the number of ranks.
        """
        if not gradient_predivide_factor > 0:
            raise ValueError(f"gradient_predivide_factor must be above 0, but is {gradient_predivide_factor}")
        if gradient_predivide_factor != 1 and op != Average:
            raise ValueError("gradient_predivide_factor is for op=hvd.Average")
        self._how = Reduction(reduction(op), require_set(process_set), 1 / gradient_predivide_factor,
                              gradient_predivide_factor)
        self._compression = checked(compression)
        self._sparse_as_dense = sparse_as_dense
        self._groups = _checked(groups)
        self._scales_local = scale_local_gradients
        self._local: Set[Any] = set()

    def register_local(self, variable: Any) -> None:
        """Excludes the gradients of this variable: each rank keeps its own."""
        self._local.add(key(variable))

    def is_local(self, variable: Any) -> bool:
        """True if register_local() was called for this variable."""
        return key(variable) in self._local

    def compare(self, variables: Sequence[Any]) -> None:
        """Warns if the script has forgotten to broadcast the variables; see same_start."""
        compare([each for each in variables if not self.is_local(each)], self._how.process_set)

    @tf.autograph.experimental.do_not_convert
    def combine(self, gradients: Sequence[Gradient], variables: Sequence[Any], name: Optional[str] = None) -> List[Any]:
        """The gradients of all ranks. Blocks outside of graphs.

        Args:
            gradients: the gradients; None for a gradient that is missing on all ranks. If other ranks have such a
                gradient, their error shows its shape on this rank as (0,).
            variables: the variables of the gradients.
            name: operations get this name and a number; the operations' names then do not depend on their place in a
                graph.
        """
        process_set = self._how.process_set
        if not may_have_others(process_set):
            return list(gradients)
        made = list(map(self._dense, gradients))
        local = {k for k, each in enumerate(variables) if self._local and self.is_local(each)}
        absent = [k for k, each in enumerate(made) if each is None and not local]
        for k in absent:  # otherwise gradients of different variables could be added up if their shapes are equal
            made[k] = tf.zeros([0], tf.as_dtype(variables[k].dtype).base_dtype)
        there = [k for k, each in enumerate(made) if each is not None and k not in local]
        sparse = [k for k in there if isinstance(made[k], tf.IndexedSlices)]
        dense = [k for k in there if k not in sparse]
        _spread_not_finite([made[k] for k in local if made[k] is not None], made, dense)
        lists = self._lists(dense, made, variables)
        names = (name and f"{name}_{number}" for number in itertools.count())
        how = self._how._replace(ignore_name_scope=name is not None)
        # At the top level of a graph, this scope gives the nodes of a second call names that differ from those of the
        # first call, but have the same endings.
        with tf.name_scope("DistributedGradients" if name is None else ""):
            sent = [[made[k] for k in each] for each in lists]
            for each, its in zip(lists, allreduces(sent, how, list(itertools.islice(names, len(lists))),
                                                   self._compression)):
                for k, gradient in zip(each, its):
                    made[k] = gradient
            for k in sparse:
                made[k] = sparse_allreduce([made[k]], _unscaled(how), next(names))[0]
        for k in absent:
            made[k] = None
        for k in local if self._scales_local else ():
            made[k] = _divided(made[k], size_of(process_set))
        return made

    def _dense(self, gradient: Gradient) -> Gradient:
        is_sparse = isinstance(gradient, tf.IndexedSlices)
        return tf.convert_to_tensor(gradient) if is_sparse and self._sparse_as_dense else gradient

    def _lists(self, dense: List[int], gradients: Sequence[Any], variables: Sequence[Any]) -> List[List[int]]:
        if self._groups is None:
            return [[dense[k] for k in each] for each in plan([gradients[k] for k in dense], bucket_bytes())]
        if isinstance(self._groups, int):
            return grouped(dense, self._groups)
        numbers: Dict[Any, int] = {key(variables[k]): k for k in dense}
        return grouped(dense, [[numbers[key(each)] for each in group if key(each) in numbers]
                               for group in self._groups])


def groups_of(groups: Groups, num_groups: int) -> Groups:
    """The argument `groups`, or the older argument `num_groups` if the program passes the older one."""
    if num_groups:
        warn("num_groups is deprecated: use groups")
    return num_groups if groups is None and num_groups else groups


def _checked(groups: Groups) -> Groups:
    if groups is None or isinstance(groups, (list, tuple)) or (isinstance(groups, int) and groups > 0):
        return groups
    raise ValueError(f"groups must be a number of at least 1 or a list of lists of variables, not {groups!r}")


def _unscaled(how: Reduction) -> Reduction:
    """Removes the factors before and after the sum: gathered values are not added up here."""
    return how._replace(prescale=1.0, postscale=1.0)


def _spread_not_finite(local: Sequence[Any], gradients: List[Any], dense: Sequence[int]) -> None:
    """Fills one of the gradients that the ranks exchange with NaN if a local gradient is not finite.

    With scaled losses, all ranks then skip this step. Otherwise only some ranks would skip it, and their models would
    differ from then on.
    """
    if not local or not dense:
        return
    parts = [each.values if isinstance(each, tf.IndexedSlices) else each for each in local]
    finite = tf.reduce_all([tf.reduce_all(tf.math.is_finite(each)) for each in parts])
    first = gradients[dense[0]]
    gradients[dense[0]] = tf.where(finite, first, tf.constant(math.nan, first.dtype))


def _divided(gradient: Gradient, ranks: Union[int, tf.Tensor]) -> Gradient:
    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(_divided(gradient.values, ranks), gradient.indices, gradient.dense_shape)
    return None if gradient is None else gradient / tf.cast(ranks, gradient.dtype)
