# anello.torch with tensors in the memory of a real GPU, on every rank of a world: values beside a reference, gradients
# in buckets, streams, a rank that joins, and what an allreduce takes. All ranks use the first GPU.
import sys
import time

import torch

if not torch.cuda.is_available():
    print("skipped: torch has no CUDA here")
    sys.exit()

import anello.torch as hvd

hvd.init()
torch.cuda.set_device(0)
ranks, rank = hvd.size(), hvd.rank()
wrong = []


def check(what, found, expected, tolerance=1e-5):
    if not (found.is_cuda and torch.allclose(found.double().cpu(), expected.double().cpu(), rtol=tolerance, atol=tolerance)):
        wrong.append(f"{what}: {found.flatten()[:5]}, not {expected.flatten()[:5]}")


def pattern(of_rank, dtype=torch.float64):
    return (torch.arange(1000) % 7).to(dtype) + of_rank


def network():
    torch.manual_seed(3)
    layers = [torch.nn.Linear(64, 512), torch.nn.ReLU(), torch.nn.Linear(512, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10)]
    return torch.nn.Sequential(*layers).cuda()


assert hvd.nccl_built() == 1
for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int32, torch.int64, torch.uint8):
    mine = pattern(rank, dtype).cuda()
    total = sum(pattern(each) for each in range(ranks))
    check(f"allreduce {dtype}", hvd.allreduce(mine, op=hvd.Sum), total)
    check(f"allreduce, the input, {dtype}", mine, pattern(rank))
    check(f"broadcast {dtype}", hvd.broadcast(mine, ranks - 1), pattern(ranks - 1))
    check(f"allgather {dtype}", hvd.allgather(mine[:rank + 1]), torch.cat([pattern(each)[:each + 1] for each in range(ranks)]))
    check(f"max {dtype}", hvd.allreduce(mine, op=hvd.Max), pattern(ranks - 1))
    hvd.allreduce_(mine, op=hvd.Sum)
    check(f"allreduce_ {dtype}", mine, total)
check("factors", hvd.allreduce(pattern(rank).cuda(), op=hvd.Average, prescale_factor=3.0, postscale_factor=0.5),
      sum(pattern(each) for each in range(ranks)) * 1.5 / ranks)
lists = hvd.grouped_allreduce([torch.full((k,), float(rank + k), device="cuda") for k in range(1, 6)], op=hvd.Sum)
for k, each in enumerate(lists, 1):
    check("a list", each, torch.full((k,), sum(other + k for other in range(ranks)) * 1.0))

# Behind slow work, on a stream of the program's, and not contiguous. In an order of each rank's own.
stream = torch.cuda.Stream()
with torch.cuda.stream(stream):
    for round in range(3):
        slow = torch.rand(4096, 4096, device="cuda")
        for _ in range(10):
            slow = torch.tanh(slow @ slow)
        made = {k: torch.full((100, 50), float(rank + k), device="cuda") + 0 * slow[:100, :50] for k in range(6)}
        order = list(made) if rank % 2 == 0 else list(reversed(made))
        handles = {k: hvd.allreduce_async(made[k].t(), op=hvd.Sum, name=f"tensor {k}") for k in order}
        for k, handle in handles.items():
            check("behind slow work", hvd.synchronize(handle), torch.full((50, 100), sum(other + k for other in range(ranks)) * 1.0))

for compression, tolerance in ((hvd.Compression.none, 1e-4), (hvd.Compression.fp16, 2e-2), (hvd.Compression.bf16, 5e-2)):
    mine, alone = network(), network()
    hvd.broadcast_parameters(mine.state_dict(), root_rank=0)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(mine.parameters(), lr=0.1, momentum=0.9), mine.named_parameters(),
                                         compression=compression)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    reference = torch.optim.SGD(alone.parameters(), lr=0.1, momentum=0.9)
    inputs, labels = torch.rand(32 * ranks, 64), torch.randint(0, 10, (32 * ranks,))
    inputs, labels = hvd.broadcast(inputs.cuda(), 0), hvd.broadcast(labels.cuda(), 0)
    for _ in range(20):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(mine(inputs[rank::ranks]), labels[rank::ranks]).backward()
        optimizer.step()
        reference.zero_grad()
        torch.nn.functional.cross_entropy(alone(inputs), labels).backward()
        reference.step()
    for (name, one), other in zip(mine.named_parameters(), alone.parameters()):
        check(f"{name} with {compression.__name__}", one.detach(), other.detach(), tolerance)
    if not all(bucket._flat[0].is_cuda for bucket in optimizer._buckets):
        wrong.append("gradients do not lie in buckets on the GPU")

if ranks > 1 and rank == 0:
    hvd.join()
else:
    check("beside a rank that has joined", hvd.allreduce(torch.ones(5, device="cuda"), op=hvd.Sum, name="last"),
          torch.full((5,), max(1.0, ranks - 1.0)))
    hvd.join()

for bytes_ in (4, 1 << 20, 16 << 20, 64 << 20):
    tensor = torch.rand(bytes_ // 4, device="cuda")
    took = []
    for _ in range(7):
        torch.cuda.synchronize()
        hvd.barrier()
        began = time.perf_counter()
        hvd.allreduce_(tensor, op=hvd.Average, name="timed")
        torch.cuda.synchronize()
        took.append(time.perf_counter() - began)
    if rank == 0:
        print(f"allreduce_ of {bytes_} bytes on {ranks} ranks: {sorted(took)[3] * 1e3:.3f} ms")
for each in wrong:
    print(f"rank {rank}: wrong {each}")
print(f"rank {rank}: {len(wrong)} wrong")
sys.exit(bool(wrong))
