"""torch.distributed by MASTER_ADDR and MASTER_PORT, over the backend that is the first argument: a sum, and a model that
DistributedDataParallel trains. Rank 0 prints both, and where it met the others."""
import os
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

backend = sys.argv[1]
if backend == "anello":
    import anello.torch.distributed  # noqa: F401
dist.init_process_group(backend)
rank, size = dist.get_rank(), dist.get_world_size()
total = torch.tensor([float(rank + 1)])
dist.all_reduce(total)

torch.manual_seed(rank)  # rank 0's parameters are used
model = DistributedDataParallel(torch.nn.Linear(3, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    optimizer.zero_grad()
    model(torch.full((2, 3), float(rank + step))).sum().backward()
    optimizer.step()
mine = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
everywhere = [torch.empty_like(mine) for _ in range(size)]
dist.all_gather(everywhere, mine)
assert all(torch.equal(mine, other) for other in everywhere)
if rank == 0:
    print("sum", int(total), "of", size, "at", os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"], flush=True)
dist.destroy_process_group()
