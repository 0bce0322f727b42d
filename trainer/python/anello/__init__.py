"""Anello: allreduce between processes and machines, without MPI.

    import anello
    world = anello.init()
    world.allreduce(gradient, "average")     # a numpy array or a torch tensor, in place
    world.finish()

Start it with `anello run -n 4 -- python3 train.py`. `anello.torch` has Horovod's interface for PyTorch,
`anello.tensorflow` has Horovod's interface for TensorFlow.
"""
from ._library import lib as _lib
from .errors import Error, InvalidArgument, Mismatch, RankFailed, Unsupported
from .group import Group
from .sharding import shard
from .training import average_metrics, replacing, save_on_rank_0, scaled_learning_rate, steps_per_epoch, warm_up
from .work import Work
from .world import World, init, init_through

__version__ = _lib.anello_version().decode()
__all__ = ["Error", "Group", "InvalidArgument", "Mismatch", "RankFailed", "Unsupported", "Work", "World",
           "average_metrics", "init", "init_through", "replacing", "save_on_rank_0", "scaled_learning_rate", "shard",
           "steps_per_epoch", "warm_up"]
