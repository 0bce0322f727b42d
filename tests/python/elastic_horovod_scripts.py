"""Scripts of Horovod's elastic interface, and jobs of real processes that run them, for tests."""
import json

import pytest
import torch
from elastic_forks import Job, Nursery

STEPS, ROWS, RATE = 60, 24, 0.05

# Each step uses all rows, divided between the ranks, so that the result does not depend on the number of ranks. In the
# middle of the training, the ranks commit again and again until the test calls go().
BEGINNING = """
import os, sys, time, torch
import anello.torch as hvd
STEPS, ROWS, RATE = %d, %d, %r
hvd.init()

def say(*what):
    print(*what, flush=True)

def model_and_optimizer(columns=4):
    model = torch.nn.Linear(columns, 1).double()
    for each in model.parameters():
        torch.nn.init.constant_(each, 0.5)
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE, momentum=0.9)
    return model, hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())

def step(state):
    mine = slice(hvd.rank(), None, hvd.size())
    state.optimizer.zero_grad()
    error = state.model(data[mine]) - data[mine].sum(1, keepdim=True)
    ((error ** 2).sum() * hvd.size() / ROWS).backward()
    state.optimizer.step()

def gone():
    return hvd.allreduce(torch.tensor(float(os.path.exists(os.environ["GO"]))), op=hvd.Max) > 0

def wait(state):
    if not gone():
        say(f"waits in world {state.worlds}")
        while not gone():
            state.commit()
            time.sleep(0.01)

data = torch.randn(ROWS, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
""" % (STEPS, ROWS, RATE)

TRAINING = BEGINNING + """
class State(hvd.elastic.TorchState):
    def restore(self):
        say("restore")
        super().restore()

    def sync(self):
        say("sync")
        super().sync()

def count():
    state.worlds += 1
    say("reset", hvd.rank(), "of", hvd.size())

model, optimizer = model_and_optimizer()
state = State(model, optimizer, step=0, worlds=1)
state.register_reset_callbacks([count])

@hvd.elastic.run
def train(state):
    say(f"world {state.worlds}: rank {hvd.rank()} of {hvd.size()} at {state.step}")
    assert os.environ["HOROVOD_RANK"] == str(hvd.rank()) and os.environ["HOROVOD_SIZE"] == str(hvd.size())
    while state.step < STEPS:
        if state.step == STEPS // 2:
            wait(state)
        step(state)
        state.step += 1
        state.commit()
    return "trained"

say(train(state), "at", state.step, "with", [each.tolist() for each in model.parameters()])
say("sum", hvd.allreduce(torch.ones(1), op=hvd.Sum).item())
"""


@pytest.fixture(scope="module")
def nursery():
    made = Nursery("anello.torch")
    yield made
    made.end()


@pytest.fixture
def job(nursery, tmp_path):
    jobs = []

    def make(script, ranks, **options):
        jobs.append(Job(nursery, tmp_path, script, ranks, **options))
        return jobs[-1]

    yield make
    for each in jobs:
        each.end()


def undisturbed():
    """The parameters after an undisturbed training."""
    model = torch.nn.Linear(4, 1).double()
    for each in model.parameters():
        torch.nn.init.constant_(each, 0.5)
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE, momentum=0.9)
    data = torch.randn(ROWS, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    for _ in range(STEPS):
        optimizer.zero_grad()
        (((model(data) - data.sum(1, keepdim=True)) ** 2).sum() / ROWS).backward()
        optimizer.step()
    return list(model.parameters())


def check_results(processes):
    for each in processes:
        assert each.ends() == 0, each.out()
        weights = json.loads(each.found(rf"trained at {STEPS} with (.*)")[1])
        for found, expected in zip(weights, undisturbed()):
            torch.testing.assert_close(torch.tensor(found, dtype=torch.float64), expected.detach(), rtol=1e-12, atol=0)
