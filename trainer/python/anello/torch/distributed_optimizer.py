"""DistributedOptimizer(): checks the program's arguments, and wraps its optimizer."""
from __future__ import annotations

from typing import Any, Iterable, Optional, Tuple, Type

import torch

from ..horovod.process_sets import ProcessSet, global_process_set
from ..horovod.reductions import Average, engine_op, reduction
from .buckets import Reduction
from .compression import Compression, Compressor
from .grouping import Groups
from .optimizer import Distributed
from .trained import named_by_program


def DistributedOptimizer(optimizer: torch.optim.Optimizer,
                         named_parameters: Optional[Iterable[Tuple[str, torch.nn.Parameter]]] = None,
                         compression: Type[Compressor] = Compression.none, backward_passes_per_step: int = 1,
                         op: int = Average, gradient_predivide_factor: float = 1.0, num_groups: int = 0,
                         groups: Groups = None, sparse_as_dense: bool = False,
                         process_set: ProcessSet = global_process_set, error_feedback: bool = False,
                         compare_parameters: bool = True) -> Any:
    """Wraps an optimizer: step() applies the gradients of all ranks, which are sent during the backward pass.

    Args:
        optimizer: an optimizer of torch or of a derived class. Its class stays a base class of the result's class.
        named_parameters: model.named_parameters(), for messages.
        compression: Compression.fp16 or .bf16: gradients are sent in 16 bits.
        backward_passes_per_step: number of backward passes whose gradients are added up before they are sent.
        op: Average or Sum; Min, Max, Product. Adasum is not available.
        gradient_predivide_factor: with Average: gradients are divided by this factor before they are added up, and the
            sum is multiplied by it.
        groups: a number of groups, or lists of parameters. The gradients of a group are sent together. By default,
            groups are made by size (HOROVOD_FUSION_THRESHOLD, 4 MiB). `num_groups` is the older name of this argument.
        sparse_as_dense: sparse gradients are sent as dense ones.
        process_set: the ranks that train together; other ranks use only their own gradients.
        error_feedback: with compression: the rounding error of a gradient is added to the gradient of the next step, so
            that gradients are not lost if they are too small for 16 bits. Horovod does not have it. See residuals().
        compare_parameters: rank 0 warns if the ranks have different parameters in the first step and also in the
            second, for example because the script does not broadcast them. This argument must be the same on all ranks.
            Horovod does not have it.
    """
    chosen = reduction(op)
    if gradient_predivide_factor != 1.0 and chosen != Average:
        raise ValueError("gradient_predivide_factor is for op=Average")
    if backward_passes_per_step <= 0:
        raise ValueError("backward_passes_per_step must be positive")
    named = named_by_program(optimizer, named_parameters)
    if isinstance(optimizer, Distributed):
        raise ValueError("this optimizer is a DistributedOptimizer already")
    kind = type(optimizer)
    made: Any = object.__new__(type(kind.__name__, (Distributed, kind), {"__module__": __name__}))
    # `step` is not copied, because a learning-rate schedule may have put its own step() into the optimizer.
    made.__dict__.update({key: value for key, value in optimizer.__dict__.items() if key != "step"})
    made._distribute(optimizer, named, Reduction(engine_op(chosen), gradient_predivide_factor, compression,
                                                 process_set, error_feedback),
                     backward_passes_per_step, groups if groups is not None else (num_groups or None), sparse_as_dense,
                     compare_parameters)
    return made
