"""Measures torch.distributed's allreduce over Gloo with the same loop as measure.cpp, and prints the columns of
anello-bench:
anello run -n 2 -- python3 bench/torch_peer.py --store $(mktemp -d) allreduce -s 4,65536
"""
import argparse
import os
import sys
import time
from functools import partial

import torch
import torch.distributed as dist

FEWEST, MOST, MOST_WARMUP = 3, 20_000, 200


def slowest(values):
    together = torch.tensor(values, dtype=torch.float64)
    dist.all_reduce(together, op=dist.ReduceOp.MAX)
    return together.tolist()


def duration_us(call):
    start = time.perf_counter_ns()
    call()
    return (time.perf_counter_ns() - start) / 1e3


def measure(call, budget_us):
    """Median, 99th percentile and mean in microseconds, of the slowest rank."""
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


def columns(call, size_bytes, budget_us, wrong):
    p50, p99, mean = measure(call, budget_us)
    bandwidth = size_bytes / p50 * 1e-3
    bus = bandwidth * 2 * (dist.get_world_size() - 1) / dist.get_world_size()
    return f"{p50:10.2f} {bandwidth:7.2f} {bus:7.2f} {wrong() if wrong else 'N/A':>6} {p99:10.2f} {mean:10.2f}"


def both_placements(size_bytes, budget_us, checked):
    source, target = torch.zeros(size_bytes // 4), torch.zeros(size_bytes // 4)

    def out_of_place():
        target.copy_(source)
        dist.all_reduce(target)

    def in_place():
        dist.all_reduce(source)

    def wrong(call, result):
        source.fill_(dist.get_rank() + 1)
        call()
        world = dist.get_world_size()
        count = int(slowest([float((result != world * (world + 1) / 2).sum())])[0])
        if count:
            sys.exit(f"{count} wrong elements of {size_bytes // 4}")
        return count

    return " ".join(columns(call, size_bytes, budget_us, partial(wrong, call, result) if checked else None)
                    for call, result in [(out_of_place, target), (in_place, source)])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("operation", choices=["allreduce"])
    parser.add_argument("--store", required=True, help="an empty folder where the ranks find each other")
    parser.add_argument("-s", "--sizes", default="4,65536,67108864", help="sizes in bytes")
    parser.add_argument("--budget_ms", type=int, default=500, help="time of the timed calls of one size")
    parser.add_argument("-c", "--check", type=int, default=1, help="0: results are not checked")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{arguments.store}/torch",
                            rank=int(os.environ["ANELLO_RANK"]), world_size=int(os.environ["ANELLO_SIZE"]))
    for size_bytes in map(int, arguments.sizes.split(",")):
        row = both_placements(size_bytes, arguments.budget_ms * 1e3, arguments.check)
        if dist.get_rank() == 0:
            print(f"{size_bytes:13} {size_bytes // 4:11} float sum {row}", flush=True)
    dist.destroy_process_group()


main()
