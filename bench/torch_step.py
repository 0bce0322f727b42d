"""PyTorch's DistributedDataParallel over Gloo in the step of `anello-bench step`: the same tensors, a backward pass of
calibrated computing, default buckets. Prints the time of the communication that the backward pass does not hide:
anello run -n 2 -- python3 bench/torch_step.py --store $(mktemp -d) --backward 800
"""
import argparse
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from torch_model import Layer, Model, backward, calibrate, median, timed_ms


def sizes_of(parameters, tensors):
    weights = [16 ** (k / tensors) * (1 if k % 2 == 0 else 1 / 500) for k in range(tensors)]
    return [max(1, int(weight / sum(weights) * parameters)) for weight in weights]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", required=True, help="an empty folder where the ranks find each other")
    parser.add_argument("--backward", type=float, required=True, help="milliseconds that the backward pass computes")
    parser.add_argument("--parameters", type=int, default=25_000_000)
    parser.add_argument("--tensors", type=int, default=60)
    parser.add_argument("--idle", action="store_true", help="the backward pass leaves the core free, as one on a GPU does")
    parser.add_argument("-r", type=int, default=9, help="steps of each kind, in turn")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{arguments.store}/torch",
                            rank=int(os.environ["ANELLO_RANK"]), world_size=int(os.environ["ANELLO_SIZE"]))
    Layer.idle = arguments.idle
    model = DistributedDataParallel(Model(sizes_of(arguments.parameters, arguments.tensors)))
    whole = torch.zeros(arguments.parameters)

    def buckets():
        backward(model)

    def alone():
        with model.no_sync():
            backward(model)

    calibrate(alone, arguments.backward)

    def blocking():
        alone()
        dist.all_reduce(whole)

    # The exposed time is the difference of two times in the same turn, because the machine's speed changes between
    # turns.
    times = {"alone": [], "blocking": [], "buckets": []}
    for turn in range(arguments.r + 2):
        base = 0
        for name, body in (("alone", alone), ("blocking", blocking), ("buckets", buckets)):
            for parameter in model.parameters():
                parameter.grad = None
            taken = timed_ms(body) - base
            if turn > 1:
                times[name].append(taken)
            base = base or taken
    expected = (dist.get_world_size() - 1) / 2
    assert all(parameter.grad[0] == expected for parameter in model.parameters()), "a wrong average"
    if dist.get_rank() == 0:
        alone_ms, blocking_ms, buckets_ms = (median(times[name]) for name in ("alone", "blocking", "buckets"))
        print(f"backward alone {alone_ms:.1f} ms, and one blocking allreduce: exposed {blocking_ms:.1f} ms")
        print(f"DDP's buckets: exposed {buckets_ms:.1f} ms, {100 * buckets_ms / blocking_ms:.1f} % of the blocking one",
              flush=True)
    dist.destroy_process_group()


main()
