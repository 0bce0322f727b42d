"""Measures a training step of PyTorch on gradients of ResNet-18's shapes, in turn by: DistributedDataParallel over
Gloo; the same over the backend "anello", without and with its communication hook; anello.torch's DistributedOptimizer:
PYTHONPATH=build/release/python anello run -n 2 -- python3 bench/torch_training.py
"""
import argparse
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from torch_model import Layer, Model, backward, calibrate, median, timed_ms


def resnet18_shapes():
    """The shapes of ResNet-18's 62 tensors (11,689,512 parameters), from the first layer to the last."""

    def convolution(outputs, inputs, width):
        return [(outputs, inputs, width, width), (outputs,), (outputs,)]  # a convolution with its batch normalisation

    shapes = convolution(64, 3, 7)
    for inputs, outputs in ((64, 64), (64, 128), (128, 256), (256, 512)):
        shapes += convolution(outputs, inputs, 3) + convolution(outputs, outputs, 3)
        if inputs != outputs:
            shapes += convolution(outputs, inputs, 1)
        shapes += convolution(outputs, outputs, 3) * 2
    return shapes + [(1000, 512), (1000,)]


def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=0.0, momentum=0.9)


def send_nothing(_, bucket):
    """A communication hook that sends nothing, to measure the rest of DistributedDataParallel."""
    future = torch.futures.Future()
    future.set_result(bucket.buffer())
    return future


def data_parallel(view, group, *hook, expected=None):
    """Returns a step of DistributedDataParallel. `hook`: a communication hook's state and function, or nothing."""
    model = DistributedDataParallel(Model(resnet18_shapes()), process_group=group, gradient_as_bucket_view=view)
    if hook:
        model.register_comm_hook(*hook)
    return stepper(model, sgd(model), expected)


def distributed_optimizer():
    """A step of anello.torch's DistributedOptimizer."""
    import anello.torch as hvd
    hvd.init()
    model = Model(resnet18_shapes())
    return stepper(model, hvd.DistributedOptimizer(sgd(model), model.named_parameters()))


def alone():
    """A step without any communication."""
    model = Model(resnet18_shapes())
    return stepper(model, sgd(model), float(dist.get_rank()))


def stepper(model, optimizer, expected=None):
    """Returns a function that makes a step and checks the average gradient. Each rank's own gradient is its number."""
    expected = (dist.get_world_size() - 1) / 2 if expected is None else expected

    def step():
        optimizer.zero_grad()
        backward(model)
        optimizer.step()

    def check():
        assert all((each.grad == expected).all() for each in model.parameters()), "a wrong average"

    step.check = check
    return step


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backward", type=float, default=30, help="milliseconds that the backward pass computes (30)")
    parser.add_argument("--idle", action="store_true", help="it leaves the core free, as one on a GPU does")
    parser.add_argument("--view", action="store_true", help="DistributedDataParallel gets gradient_as_bucket_view=True")
    parser.add_argument("-r", type=int, default=21, help="steps of each kind, in turn (21)")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    # The import also registers the backend.
    from anello.torch.shared_memory_hook import SharedMemoryState, shared_memory_hook
    dist.init_process_group("gloo")
    Layer.idle = arguments.idle
    steps = {"alone": alone()}
    calibrate(steps["alone"], arguments.backward)
    view, group = arguments.view, dist.new_group(backend="anello")
    steps["DistributedDataParallel, gloo"] = data_parallel(view, None)
    steps["DistributedDataParallel, anello"] = data_parallel(view, group)
    steps["the same, shared_memory_hook"] = data_parallel(view, group, SharedMemoryState(group), shared_memory_hook)
    steps["the same, nothing is sent"] = data_parallel(view, group, None, send_nothing, expected=float(dist.get_rank()))
    steps["DistributedOptimizer, anello"] = distributed_optimizer()
    report(measure(steps, arguments.r))


def measure(steps, rounds):
    """Milliseconds of each kind of step in each round. Three rounds before these are not counted, because buckets still
    move there."""
    times = {name: [] for name in steps}
    for turn in range(rounds + 3):
        for name, step in steps.items():
            taken = timed_ms(step)
            if turn > 2:
                times[name].append(taken)
    for step in steps.values():
        step.check()
    return times


def report(times):
    if dist.get_rank() != 0:
        return
    base, gloo = times["alone"], times["DistributedDataParallel, gloo"]
    print(f"{'step':33} {'ms':>7} {'exposed ms':>11} {'gloo / this':>12}")
    for name, taken in times.items():
        # Differences and ratios are taken within a round, because the machine's speed changes between rounds.
        exposed = median([each - its for each, its in zip(taken, base)])
        ratio = median([its / each for each, its in zip(taken, gloo)])
        print(f"{name:33} {median(taken):7.1f} {exposed:11.1f} {ratio:12.2f}", flush=True)


main()
