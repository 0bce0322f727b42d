# anello.torch with tensors in the memory of a real GPU, on every rank of a world: values compared with a reference,
# gradients in buckets, streams, a rank that joins, and the time of an allreduce. All ranks use the first GPU.
import copy
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
    same = torch.allclose(found.double().cpu(), expected.double().cpu(), rtol=tolerance, atol=tolerance)
    if not (found.is_cuda and same):
        wrong.append(f"{what}: {found.flatten()[:5]}, not {expected.flatten()[:5]}")


def pattern(of_rank, dtype=torch.float64):
    return (torch.arange(1000) % 7).to(dtype) + of_rank


def network():
    torch.manual_seed(3)
    layers = [torch.nn.Linear(64, 512), torch.nn.ReLU(), torch.nn.Linear(512, 512), torch.nn.ReLU(),
              torch.nn.Linear(512, 10)]
    return torch.nn.Sequential(*layers).cuda()


assert hvd.nccl_built() == 1
for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int32, torch.int64, torch.uint8):
    mine = pattern(rank, dtype).cuda()
    total = sum(pattern(each) for each in range(ranks))
    check(f"allreduce {dtype}", hvd.allreduce(mine, op=hvd.Sum), total)
    check(f"allreduce, the input, {dtype}", mine, pattern(rank))
    check(f"broadcast {dtype}", hvd.broadcast(mine, ranks - 1), pattern(ranks - 1))
    check(f"allgather {dtype}", hvd.allgather(mine[:rank + 1]),
          torch.cat([pattern(each)[:each + 1] for each in range(ranks)]))
    check(f"max {dtype}", hvd.allreduce(mine, op=hvd.Max), pattern(ranks - 1))
    hvd.allreduce_(mine, op=hvd.Sum)
    check(f"allreduce_ {dtype}", mine, total)
check("factors", hvd.allreduce(pattern(rank).cuda(), op=hvd.Average, prescale_factor=3.0, postscale_factor=0.5),
      sum(pattern(each) for each in range(ranks)) * 1.5 / ranks)
lists = hvd.grouped_allreduce([torch.full((k,), float(rank + k), device="cuda") for k in range(1, 6)], op=hvd.Sum)
for k, each in enumerate(lists, 1):
    check("a list", each, torch.full((k,), sum(other + k for other in range(ranks)) * 1.0))

# The tensors come after slow work, are on a stream of the program, and are not contiguous. The order of the calls
# differs between ranks.
stream = torch.cuda.Stream()
with torch.cuda.stream(stream):
    for _ in range(3):
        slow = torch.rand(4096, 4096, device="cuda")
        for _ in range(10):
            slow = torch.tanh(slow @ slow)
        made = {k: torch.full((100, 50), float(rank + k), device="cuda") + 0 * slow[:100, :50] for k in range(6)}
        order = list(made) if rank % 2 == 0 else list(reversed(made))
        handles = {k: hvd.allreduce_async(made[k].t(), op=hvd.Sum, name=f"tensor {k}") for k in order}
        for k, handle in handles.items():
            total = sum(other + k for other in range(ranks)) * 1.0
            check("behind slow work", hvd.synchronize(handle), torch.full((50, 100), total))

ways = hvd.Compression
for compression, tolerance in ((ways.none, 1e-4), (ways.fp16, 2e-2), (ways.bf16, 5e-2)):
    mine, alone = network(), network()
    hvd.broadcast_parameters(mine.state_dict(), root_rank=0)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(mine.parameters(), lr=0.1, momentum=0.9),
                                         mine.named_parameters(), compression=compression)
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

# Clipped gradients, once in the right way and once without synchronize(), which is an error.
model = network()
optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
for step in range(3):
    optimizer.zero_grad()
    model(torch.rand(8, 64, device="cuda")).square().mean().backward()
    if step < 2:
        optimizer.synchronize()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.01)
        with optimizer.skip_synchronize():
            optimizer.step()
        continue
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.01)
    try:
        optimizer.step()
        wrong.append("gradients that were changed while they were sent are no error")
    except RuntimeError as error:
        if "call optimizer.synchronize() first" not in str(error):
            wrong.append(f"another error: {error}")

# Mixed precision: gradients are unscaled after they were combined. Normalisation over all ranks' rows.
torch.manual_seed(5)
ends = [torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10)]
mixed = torch.nn.Sequential(ends[0], hvd.SyncBatchNorm(32), *ends[1:]).cuda()
whole = copy.deepcopy(torch.nn.Sequential(ends[0], torch.nn.BatchNorm1d(32), *ends[1:]).cuda())
whole.load_state_dict(mixed.state_dict())
optimizer = hvd.DistributedOptimizer(torch.optim.SGD(mixed.parameters(), lr=0.1), mixed.named_parameters())
reference = torch.optim.SGD(whole.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cuda") if hasattr(torch.amp, "GradScaler") else torch.cuda.amp.GradScaler()
for _ in range(10):
    inputs = hvd.broadcast(torch.rand(16 * ranks, 64).cuda(), 0)
    optimizer.zero_grad()
    with torch.autocast("cuda", enabled=False):
        loss = mixed(inputs[rank::ranks]).square().mean()
    scaler.scale(loss).backward()
    optimizer.synchronize()
    scaler.unscale_(optimizer)
    with optimizer.skip_synchronize():
        scaler.step(optimizer)
    scaler.update()
    reference.zero_grad()
    whole(inputs).square().mean().backward()
    reference.step()
for (name, one), other in zip(mixed.named_parameters(), whole.parameters()):
    check(f"{name} with GradScaler and SyncBatchNorm", one.detach(), other.detach(), 1e-3)

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
