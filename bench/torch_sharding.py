"""A training step of a small transformer whose parameters FSDP2 shards, over Gloo and over the backend "anello", in
turn; needs PyTorch 2.8 or later. Prints the medians of the slowest rank's times, and how much the losses of the two
backends differ:
PYTHONPATH=build/release/python anello run -n 4 -- python3 bench/torch_sharding.py
With `--parallel 2` each layer's feed-forward part is also divided among 2 ranks (tensor parallelism).
"""
import argparse

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

import anello.torch.distributed  # noqa: F401, this import registers the backend
from torch_model import median, timed_ms


def transformer(width, layers):
    """The model has equal parameters on all ranks and in all calls."""
    torch.manual_seed(1)
    layer = torch.nn.TransformerEncoderLayer(width, nhead=8, dim_feedforward=4 * width, dropout=0.0, batch_first=True)
    return torch.nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)


def mesh_of(backend, parallel):
    """Returns a mesh: ranks that shard, by ranks that share a layer. Makes new groups, because otherwise torch would
    share groups between meshes."""
    ranks = torch.arange(dist.get_world_size()).view(-1, parallel)
    groups = [dist.new_subgroups_by_enumeration(each.tolist(), backend=backend)[0] for each in (ranks.T, ranks)]
    return DeviceMesh.from_group(groups, "cpu", ranks, mesh_dim_names=("shard", "parallel"))


class Sharded:
    """A model sharded over the ranks, layer by layer, and its steps."""

    def __init__(self, backend, options):
        self.model = transformer(options.width, options.layers)
        mesh = mesh_of(backend, options.parallel)
        if options.parallel > 1:
            for layer in self.model.layers:
                parallelize_module(layer, mesh["parallel"], {"linear1": ColwiseParallel(), "linear2": RowwiseParallel()})
        mesh = mesh["shard"]
        for layer in self.model.layers:
            fully_shard(layer, mesh=mesh)
        fully_shard(self.model, mesh=mesh)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4)
        torch.manual_seed(2 + mesh.get_local_rank())
        self.data = torch.randn(options.rows, options.tokens, options.width)
        self.losses, self.times = [], []

    def step(self):
        self.optimizer.zero_grad()
        loss = self.model(self.data).square().mean()
        loss.backward()
        self.optimizer.step()
        self.losses.append(loss.item())


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--width", type=int, default=256, help="of the transformer (256)")
    parser.add_argument("--layers", type=int, default=4, help="(4)")
    parser.add_argument("--rows", type=int, default=2, help="in each rank's batch (2)")
    parser.add_argument("--tokens", type=int, default=32, help="of a row (32)")
    parser.add_argument("--parallel", type=int, default=1, metavar="N", help="ranks that share a layer (1)")
    parser.add_argument("-r", type=int, default=31, metavar="R", help="steps of each kind, in turn (31)")
    options = parser.parse_args()
    dist.init_process_group("gloo")
    kinds = {backend: Sharded(backend, options) for backend in ("gloo", "anello")}
    for kind in list(kinds.values()) * 3:
        kind.step()
    for _ in range(options.r):
        for kind in kinds.values():
            kind.times.append(timed_ms(kind.step))
    if dist.get_rank() == 0:
        print(f"{sum(each.numel() for each in transformer(options.width, options.layers).parameters()):,} parameters")
        for name, kind in kinds.items():
            print(f"{name:8} {median(kind.times):8.2f} ms")
        print(f"gloo / anello {median(kinds['gloo'].times) / median(kinds['anello'].times):.2f}")
        furthest = max(abs(a - b) / abs(a) for a, b in zip(kinds["gloo"].losses, kinds["anello"].losses))
        print(f"losses differ by at most {furthest:.1e} of their values")
    dist.destroy_process_group()


main()
