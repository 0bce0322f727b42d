"""The part of a distributed optimizer that communicates with the other ranks."""
from __future__ import annotations

import weakref
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Set

import tensorflow as tf

from ...horovod import basics
from ...horovod.numbering import next_number
from ...horovod.process_sets import ProcessSet
from ...horovod.reductions import Min
from ..gradients import Gradient, Gradients
from ..graph import may_have_others
from ..same_model import require_same
from ..variables import key
from ..verbs import allreduce
from .aggregation import Aggregation


class Settings(NamedTuple):
    """The arguments of DistributedOptimizer().

    Attributes:
        gradients: the arguments of Gradients.
        passes: the number of backward passes of a step.
        averages: whether the sums over the passes are divided by the number of passes.
        name: the beginning of the operations' names.
    """

    gradients: Dict[str, Any]
    passes: int = 1
    averages: bool = False
    name: Optional[str] = None


class Ranks:
    """Combines the gradients of one optimizer with those of the other ranks.

    The operations' names contain the optimizer's number. Optimizers of a process set are numbered in the order of their
    first use. The names that Keras makes up for optimizers cannot be used: they would differ on a rank that has made
    one more model.
    """

    def __init__(self, settings: Settings) -> None:
        self.gradients = Gradients(**settings.gradients)
        self.process_set: ProcessSet = settings.gradients["process_set"]
        self.aggregation: Optional[Aggregation] = None
        if settings.passes > 1:
            self.aggregation = Aggregation(settings.passes, settings.averages, settings.gradients["sparse_as_dense"])
        self._prefix = settings.name or "optimizer"
        self._name: Optional[str] = None
        self._agreed: Set[Any] = set()
        self._trained: List[Any] = []
        self._is_compared = False
        self._agenda: Any = None
        # True while fit() runs. There, all ranks make their functions, and they make new ones in each world.
        self.is_fitting = False

    def follow_world(self) -> bool:
        """True if the world has changed since the last call.

        Then the optimizer begins anew, because some ranks may be new.
        """
        if self._agenda is not None and self._agenda() is self.process_set.agenda:
            return False
        self._agenda = weakref.ref(self.process_set.agenda)
        self._agreed.clear()
        self._name, self._is_compared = None, False
        return True

    def combine(self, gradients: Sequence[Gradient], variables: Sequence[Any]) -> List[Gradient]:
        """Returns the gradients of all ranks. None stays None. Raises Mismatch on all ranks if their variables
        differ."""
        if not may_have_others(self.process_set):
            return list(gradients)
        self._agree(gradients, variables)
        return self.gradients.combine(gradients, variables, name=self._named("gradients"))

    def all_finite(self, finite: tf.Tensor) -> tf.Tensor:
        """A bool that is true if `finite` is true on all ranks."""
        if not may_have_others(self.process_set):
            return finite
        least = allreduce(tf.cast(finite, tf.int32), op=Min, name=self._named("finite"), process_set=self.process_set,
                          ignore_name_scope=True)
        return tf.cast(least, tf.bool)

    def not_compared(self) -> List[Any]:
        """The variables of the last step; an empty list if an earlier call has returned some."""
        trained = [] if self._is_compared else self._trained
        self._is_compared = self._is_compared or bool(trained)
        return trained

    def _named(self, what: str) -> str:
        if self._name is None:
            since = f"_after_join_{basics.joins()}" if basics.joins() else ""  # join() starts the numbers again
            self._name = f"{self._prefix}_{next_number(self.process_set.agenda)}{since}"
        return f"{self._name}_{what}"

    def _agree(self, gradients: Sequence[Gradient], variables: Sequence[Any]) -> None:
        """Compares the ranks' variables if the program has changed its variables, or is making a function. Only then
        blocks."""
        self.follow_world()
        trained = [variable for gradient, variable in zip(gradients, variables)
                   if gradient is not None and not self.gradients.is_local(variable)]
        self._trained = trained
        keys = tuple(map(key, trained))
        if keys not in self._agreed and self._all_compare():
            # A rank that does not compare its variables submits its first operation, which has this name. So this
            # operation and the comparison fail, and no rank waits.
            require_same(trained, self.process_set, self._named("gradients_0") if self._agreed else None)
            self._agreed.add(keys)

    def _all_compare(self) -> bool:
        """False while this rank makes a function that other ranks may have made in an earlier world: such ranks do not
        compare."""
        worlds = basics.elastic_worlds()
        return tf.executing_eagerly() or self.is_fitting or worlds is None or worlds.job.change.generation == 1


class ForAllRanks:
    """The base class of distributed optimizers; it serves Keras 3 and tf-keras."""

    _settings: Settings  # set in the class that DistributedOptimizer makes
    _ranks: Ranks
    iterations: Any  # an attribute of the optimizer's class

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.begin()

    def begin(self) -> None:
        """Makes the optimizer work for all ranks from now on."""
        object.__setattr__(self, "_ranks", Ranks(self._settings))  # Keras would look for variables in the attribute

    def register_local_var(self, var: Any) -> None:
        """Excludes the gradients of this variable: each rank keeps its own."""
        self._ranks.gradients.register_local(var)

    @property
    def _agg_helper(self) -> Any:
        # Horovod's name of the attribute: programs read its counter.
        return self._ranks.aggregation
