"""Elastic jobs: ranks may end and others join, and the training goes on with the state of the ranks that live.

    state = anello.elastic.State(model=model, optimizer=optimizer)
    for world in anello.elastic.worlds(state):
        with world:
            for batch in anello.elastic.batches(data, global_batch=256, seed=1, epochs=10, state=state):
                ...                                 # gradients of data[i] for i in batch.samples; world.allreduce()
                state.commit(optimizer.step)

Start the processes with `anello rendezvous --min-np N`; docs/elastic.md describes the jobs. Other interfaces are built
on `Job`. Neither numpy nor torch is imported here.
"""
from .batches import Batch, batches
from .job import Change, Job, WorldEnds, hash_of
from .loader import loader
from .loop import NotNeeded, run, worlds
from .state import State

__all__ = ["Batch", "Change", "Job", "NotNeeded", "State", "WorldEnds", "batches", "hash_of", "loader", "run", "worlds"]
