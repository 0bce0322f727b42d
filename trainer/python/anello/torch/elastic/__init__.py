"""Horovod's elastic interface for models, optimizers and samplers of torch."""
from ...horovod.elastic_run import run
from ...horovod.source import source_rank
from .sampler import ElasticSampler
from .state import ObjectState, State, TorchState

__all__ = ["ElasticSampler", "ObjectState", "State", "TorchState", "run", "source_rank"]
