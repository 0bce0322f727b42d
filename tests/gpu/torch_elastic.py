# torch_elastic.py [cpu]: a process of an elastic job whose ranks share a real GPU. In the middle of the training, rank 1
# dies while the others wait for its gradients on the GPU; then another process takes its place and receives the state.
# The parameters must be those of a training in one process. `anello run -n 3 --min-np 1 -- python3 torch_elastic.py`
import os
import signal
import sys
import time

import torch

if sys.argv[1:] != ["cpu"] and not torch.cuda.is_available():
    print("skipped: torch has no CUDA here")
    sys.exit()

import anello.torch as hvd

STEPS, ROWS, RATE = 60, 240, 0.05
LIMIT_S = 120
device = "cpu" if sys.argv[1:] == ["cpu"] else "cuda"
hvd.init()
data = torch.randn(ROWS, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64).to(device)


def model_and_optimizer():
    model = torch.nn.Linear(4, 1).double()
    for each in model.parameters():
        torch.nn.init.constant_(each, 0.5)
    model = model.to(device)
    return model, torch.optim.SGD(model.parameters(), lr=RATE, momentum=0.9)


def step(model, optimizer, mine, factor):
    optimizer.zero_grad()
    error = model(data[mine]) - data[mine].sum(1, keepdim=True)
    ((error ** 2).sum() * factor / ROWS).backward()
    optimizer.step()


def count():
    state.worlds += 1


model, optimizer = model_and_optimizer()
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
state = hvd.elastic.TorchState(model, optimizer, step=0, worlds=1, ranks=hvd.size())
state.register_reset_callbacks([count])


@hvd.elastic.run
def train(state):
    print(f"world {state.worlds}: rank {hvd.rank()} of {hvd.size()}, process {os.getpid()}, at step {state.step}", flush=True)
    assert device == "cpu" or hvd.nccl_built() == 1, "tensors do not stay on the GPU"
    until = time.monotonic() + LIMIT_S
    while state.worlds > 1 and hvd.size() < state.ranks and state.step == STEPS // 2:
        if hvd.allreduce(torch.tensor(float(time.monotonic() > until)), op=hvd.Max) > 0:
            break  # the last world has fewer ranks
        state.commit()
        time.sleep(0.05)
    while state.step < STEPS:
        if state.step == STEPS // 2 and state.worlds == 1 and hvd.rank() == 1:
            time.sleep(0.5)
            os.kill(os.getpid(), signal.SIGKILL)
        step(model, optimizer, slice(hvd.rank(), None, hvd.size()), hvd.size())
        state.step += 1
        state.commit()
    return hvd.size()


ranks = train(state)
alone, its = model_and_optimizer()
for _ in range(STEPS):
    step(alone, its, slice(None), 1)
if device == "cuda":
    torch.cuda.synchronize()
equal = all(torch.allclose(one, other, rtol=1e-10, atol=0) for one, other in zip(model.parameters(), alone.parameters()))
on_device = all(each.device.type == device for each in model.parameters())
right = equal and on_device and (state.worlds > 1) == (state.ranks > 1) and ranks == state.ranks
print(f"rank {hvd.rank()} of {ranks} in world {state.worlds}: {'right' if right else 'WRONG'}", flush=True)
sys.exit(not right)
