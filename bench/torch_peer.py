"""Measures the allreduce of torch.distributed or Horovod with the same loop as measure.cpp, and prints the columns of
anello-bench; or what a rank of torch.distributed costs beside its operations (torch_idle.py):
anello run -n 2 -- python3 bench/torch_peer.py --store $(mktemp -d) allreduce -s 4,65536
"""
import argparse
import importlib
import json
import os
import sys
import time
from functools import partial

import torch

FEWEST, MOST, MOST_WARMUP = 3, 20_000, 200


class Torch:
    def __init__(self, arguments):
        if arguments.backend == "anello":
            importlib.import_module("anello.torch.distributed")  # registers the backend
        self.dist = importlib.import_module("torch.distributed")
        self.version = torch.__version__
        self.rank, self.world = int(os.environ["ANELLO_RANK"]), int(os.environ["ANELLO_SIZE"])
        self.dist.init_process_group(arguments.backend, init_method=f"file://{arguments.store}/torch", rank=self.rank,
                                     world_size=self.world)

    def add(self, tensor):
        self.dist.all_reduce(tensor)

    def sums(self, source, target):
        target.copy_(source)
        self.dist.all_reduce(target)

    def largest(self, tensor):
        self.dist.all_reduce(tensor, op=self.dist.ReduceOp.MAX)
        return tensor

    def leave(self):
        self.dist.destroy_process_group()


class Horovod:
    def __init__(self, _arguments):
        self.hvd = importlib.import_module("horovod.torch")
        self.hvd.init()
        self.version = importlib.import_module("horovod").__version__
        self.rank, self.world = self.hvd.rank(), self.hvd.size()

    def add(self, tensor):
        self.hvd.allreduce_(tensor, op=self.hvd.Sum, name="in place")

    def sums(self, source, target):
        target.copy_(source)
        self.hvd.allreduce_(target, op=self.hvd.Sum, name="out of place")

    def largest(self, tensor):
        return self.hvd.allgather(tensor[None], name="figures").amax(dim=0)

    def leave(self):
        self.hvd.shutdown()


def duration_us(call):
    start = time.perf_counter_ns()
    call()
    return (time.perf_counter_ns() - start) / 1e3


def sent_bytes():
    """Bytes that this network namespace has sent over the loopback interface."""
    with open("/proc/net/dev") as file:
        return next(int(line.split()[9]) for line in file if line.lstrip().startswith("lo:"))


class Counted:
    """A call, and how often it was made."""

    def __init__(self, call):
        self.call, self.times = call, 0

    def __call__(self):
        self.times += 1
        self.call()


def measure(library, call, budget_us):
    """Median, 99th percentile and mean in microseconds, of the slowest rank."""
    def slowest(values):
        return library.largest(torch.tensor(values, dtype=torch.float64)).tolist()

    call()
    least = slowest([duration_us(call)])[0]
    for _ in range(2):
        if least * FEWEST < budget_us:
            least = min(least, slowest([duration_us(call)])[0])
    iterations = int(min(max(budget_us / least, FEWEST), MOST))
    for _ in range(min(max(iterations // 10, 1), MOST_WARMUP)):
        call()
    stamps = [time.perf_counter_ns()]
    for _ in range(iterations):
        call()
        stamps.append(time.perf_counter_ns())
    mean = slowest([(stamps[-1] - stamps[0]) / 1e3 / iterations])[0]
    durations = sorted(slowest([(after - before) / 1e3 for before, after in zip(stamps, stamps[1:])]))
    return durations[(iterations - 1) // 2], durations[-(-99 * iterations // 100) - 1], mean


def columns(library, call, size_bytes, budget_us, wrong):
    """The columns of one placement, and the bytes that a call sent over the loopback interface."""
    counted, before = Counted(call), sent_bytes()
    p50, p99, mean = measure(library, counted, budget_us)
    sent = (sent_bytes() - before) / counted.times
    bandwidth = size_bytes / p50 * 1e-3
    bus = bandwidth * 2 * (library.world - 1) / library.world
    return f"{p50:10.2f} {bandwidth:7.2f} {bus:7.2f} {wrong() if wrong else 'N/A':>6} {p99:10.2f} {mean:10.2f}", sent


def both_placements(library, size_bytes, budget_us, checked):
    source, target = torch.zeros(size_bytes // 4), torch.zeros(size_bytes // 4)

    def wrong(call, result):
        source.fill_(library.rank + 1)
        call()
        count = int(library.largest(torch.tensor([float((result != library.world * (library.world + 1) / 2).sum())])))
        if count:
            sys.exit(f"{count} wrong elements of {size_bytes // 4}")
        return count

    return [columns(library, call, size_bytes, budget_us, partial(wrong, call, result) if checked else None)
            for call, result in [(partial(library.sums, source, target), target), (partial(library.add, source), source)]]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("operation", choices=["allreduce", "idle"])
    parser.add_argument("--library", choices=["torch", "horovod"], default="torch")
    parser.add_argument("--store", help="an empty folder where the ranks of torch find each other")
    parser.add_argument("-s", "--sizes", default="4,65536,67108864", help="sizes in bytes")
    parser.add_argument("--budget_ms", type=int, default=500, help="time of the timed calls of one size")
    parser.add_argument("--backend", choices=["gloo", "anello"], default="gloo")
    parser.add_argument("--idle_ms", type=int, default=2000)
    parser.add_argument("--late_ms", type=int, default=1000)
    parser.add_argument("--operations", type=int, default=1000)
    parser.add_argument("--calls", choices=["blocking"], default="blocking")
    parser.add_argument("-c", "--check", type=int, default=1, help="0: results are not checked")
    parser.add_argument("--loopback", action="store_true", help="before each line, print a call's bytes over loopback")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    library = {"torch": Torch, "horovod": Horovod}[arguments.library](arguments)

    def say(line):
        if library.rank == 0:
            print(line, flush=True)

    say("# " + json.dumps({"library": arguments.library, "version": library.version}, separators=(",", ":")))
    if arguments.operation == "idle":
        row = importlib.import_module("torch_idle").measure(arguments.idle_ms, arguments.late_ms, arguments.operations)
        say("  " + " ".join(f"{value:9.2f}" for value in row))
    for size_bytes in map(int, arguments.sizes.split(",")) if arguments.operation == "allreduce" else ():
        figures = both_placements(library, size_bytes, arguments.budget_ms * 1e3, arguments.check)
        if arguments.loopback:
            say("# loopback: " + " ".join(f"{sent:.0f}" for _, sent in figures) + " bytes a call")
        say(f"{size_bytes:13} {size_bytes // 4:11} float sum " + " ".join(row for row, _ in figures))
    library.leave()


main()
