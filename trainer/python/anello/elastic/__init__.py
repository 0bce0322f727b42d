"""Elastic jobs: ranks may end and others join, and the training goes on with the state of those that live.

docs/elastic.md describes them. `Job` is the part that other interfaces are built on.
"""
from .job import Change, Job, WorldEnds, hash_of

__all__ = ["Change", "Job", "WorldEnds", "hash_of"]
