"""The backend "anello" if only a store of torch.distributed connects the ranks, as under torchrun."""
import os
import subprocess
import sys

import torch.distributed as dist

RANK = """
import sys, torch, torch.distributed as dist, anello.torch.distributed
rank, size, port = map(int, sys.argv[1:])
for turn in range(2):
    store = dist.PrefixStore(f"turn {turn}", dist.TCPStore("127.0.0.1", port, None, False))
    dist.init_process_group("anello", store=store, rank=rank, world_size=size)
    made = torch.full((3,), rank + 1.0)
    dist.all_reduce(made)
    assert made.tolist() == [size * (size + 1) / 2] * 3
    pair = dist.new_group([0, size - 1])
    if rank in (0, size - 1):
        dist.broadcast(made.fill_(rank), size - 1, group=pair)
        assert made.tolist() == [size - 1] * 3
    dist.destroy_process_group()
"""


def test_ranks_find_each_other_through_the_store_and_again_after_the_end():
    size = 3
    store = dist.TCPStore("127.0.0.1", 0, None, True, wait_for_workers=False)
    alone = {name: value for name, value in os.environ.items() if not name.startswith("ANELLO_R")}
    ranks = [subprocess.Popen([sys.executable, "-c", RANK, str(rank), str(size), str(store.port)], env=alone,
                              stderr=subprocess.PIPE, text=True) for rank in range(size)]
    try:
        for each in ranks:
            messages = each.communicate(timeout=100)[1]
            assert each.returncode == 0, messages
    finally:
        for each in ranks:
            each.kill()
            each.wait()
