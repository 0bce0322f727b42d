"""Tensors that claim to lie on this rank's GPU, for tests with the fake plugin. Their memory is memory of the host."""
import ctypes
import os
import types

import torch

import anello.torch as hvd
from anello import agenda

STREAM = 64  # some address


class OnGpu(torch.Tensor):
    """A tensor of this rank's GPU."""

    @property
    def is_cuda(self):
        return True

    @property
    def is_cpu(self):
        return False

    @property
    def device(self):
        return torch.device("cuda", hvd.local_rank())

    def new_empty(self, *size, device=None, **options):
        made = torch.empty(*size, dtype=self.dtype, **options)
        return made if device == "cpu" else on_gpu(made)

    def cpu(self):
        return self.detach().as_subclass(torch.Tensor).clone()


def on_gpu(tensor):
    return tensor.as_subclass(OnGpu)


def move_to_gpu(model):
    """Moves the parameters of a model's layers; returns the model."""
    for layer in model.modules():
        for name, parameter in list(layer.named_parameters(recurse=False)):
            setattr(layer, name, torch.nn.Parameter(on_gpu(parameter.detach())))
    return model


def install(replace):
    """Makes torch report that it has GPUs. Returns a list, to which each operation appends whether it used the GPU.

    Args:
        replace: sets an attribute, like setattr().
    """
    # On this thread, host memory counts as memory of the given GPU; -1: it counts as host memory.
    pretend = ctypes.CDLL(os.environ["ANELLO_GPU_PLUGIN"])._ZN6anello3gpu4fake7pretendEi
    stream = types.SimpleNamespace(cuda_stream=STREAM, device=None)
    taken = []
    started = agenda.Agenda._submit

    def submit(self, function, name, *arguments, options, **rest):
        if options.on_gpu:
            assert (options.device, options.stream) == (hvd.local_rank(), STREAM)
            options.stream = None  # the fake does not have that stream
            pretend(hvd.local_rank())
        taken.append(bool(options.on_gpu))
        try:
            return started(self, function, name, *arguments, options=options, **rest)
        finally:
            pretend(-1)

    moved, made = torch.Tensor.to, torch.empty

    def empty(*size, device=None, **options):
        where = torch.device(device or "cpu")
        return on_gpu(made(*size, **options)) if where.type == "cuda" else made(*size, device=where, **options)

    def to(tensor, where, *rest):
        if isinstance(where, torch.device):
            return on_gpu(tensor) if where.type == "cuda" else tensor.as_subclass(torch.Tensor)
        return moved(tensor, where, *rest)

    replace(agenda.Agenda, "_submit", submit)
    replace(torch.cuda, "device_count", lambda: 4)
    replace(torch.cuda, "current_device", lambda: hvd.local_rank())
    replace(torch.cuda, "current_stream", lambda _: stream)
    replace(torch.version, "cuda", "13.0")
    replace(torch.Tensor, "to", to)
    replace(torch, "empty", empty)
    return taken
