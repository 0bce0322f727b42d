"""The benchmarks of training with torch share this: a model whose backward pass computes for a while, and timing."""
import time

import torch
import torch.distributed as dist

# The matrix is small enough for the first-level cache, so that its computing loads the core and not the memory.
SMALL = torch.full((48, 48), 1e-3)


def compute(rounds):
    if Layer.idle:
        time.sleep(rounds * 1e-5)
        return
    for _ in range(rounds):
        torch.mm(SMALL, SMALL)


class Layer(torch.autograd.Function):
    """Passes its input on; its backward pass computes for a while, and returns the rank as the parameter's gradient."""

    rounds, idle = 0, False

    @staticmethod
    def forward(ctx, value, parameter):
        ctx.save_for_backward(parameter)
        return value.clone()

    @staticmethod
    def backward(ctx, gradient):
        compute(Layer.rounds)
        (parameter,) = ctx.saved_tensors
        return gradient, torch.full_like(parameter, float(dist.get_rank()))


class Model(torch.nn.Module):
    """One layer for each shape."""

    def __init__(self, shapes):
        super().__init__()
        self.all = torch.nn.ParameterList(torch.nn.Parameter(torch.zeros(shape)) for shape in shapes)

    def forward(self, value):
        for parameter in self.all:
            value = Layer.apply(value, parameter)
        return value


def backward(model):
    model(torch.ones(1, requires_grad=True)).sum().backward()


def timed_ms(body):
    """The time of the slowest rank."""
    dist.barrier()
    start = time.perf_counter()
    body()
    taken = torch.tensor([(time.perf_counter() - start) * 1e3])
    dist.all_reduce(taken, op=dist.ReduceOp.MAX)
    return taken.item()


def calibrate(body, limit_ms):
    """Sets the number of rounds in a layer so that the body takes about limit_ms on the slowest rank."""
    Layer.rounds = 100
    for _ in range(4):
        Layer.rounds = int(Layer.rounds * limit_ms / timed_ms(body)) + 1


def median(values):
    return sorted(values)[(len(values) - 1) // 2]
