"""Elastic jobs whose tensors lie on fake GPUs: operations under way when a rank dies, and the state of the others."""
import re
import signal

import pytest
from elastic_horovod_scripts import STEPS, TRAINING, check_results

pytest_plugins = "elastic_horovod_scripts"  # its fixtures

ON_GPUS = TRAINING.replace("hvd.init()\n", """
sys.path.insert(0, %r)
import fake_gpus
ways = fake_gpus.install(setattr)
hvd.init()
""" % __file__.rsplit("/", 1)[0], 1).replace("    model = torch.nn.Linear(columns, 1).double()\n", """
    model = fake_gpus.move_to_gpu(torch.nn.Linear(columns, 1).double())
""").replace("    state.optimizer.step()\n", """
    state.optimizer.step()
    assert all(each.is_cuda for each in state.model.parameters())
""").replace("    while state.step < STEPS:\n", """
    say(f"world {state.worlds} on GPU", hvd.local_rank(), hvd.nccl_built())
    while state.step < STEPS:
""").replace('say("sum"', 'say("ways", True in ways)\nsay("sum"')


def check_gpus(processes):
    check_results(processes)
    for each in processes:
        assert each.found("ways True")
        assert len(set(re.findall(r"world \d+ on GPU (\d) 1", each.out()))) == 1, each.out()


@pytest.mark.parametrize("victim", [0, 2])
def test_the_others_go_on_when_a_rank_dies_in_a_step(job, victim):
    running = job(ON_GPUS.replace("    error = state.model", f"""
    if state.step == STEPS // 2 and state.worlds == 1 and hvd.rank() == {victim}:
        time.sleep(0.3)  # the others wait for this rank's gradients
        os.kill(os.getpid(), 9)
    error = state.model"""), 3)
    running.found("waits in world 1")
    running.go()
    assert running.remove(running.at(victim)).ends() == -signal.SIGKILL
    check_gpus(running.processes)
    assert "restore" in running.outs()


@pytest.mark.parametrize("copies", ["", ", copy=False"])
def test_a_newcomer_gets_the_state_on_its_gpu(job, copies):
    running = job(ON_GPUS.replace("State(model, optimizer", f"State(model, optimizer{copies}"), 2)
    running.found("waits in world 1")
    third = running.add()
    running.found("waits in world 2")
    running.remove(running.at(0)).end()
    running.found("waits in world 3")
    running.go()
    check_gpus(running.processes)
    assert f"world 2: rank 2 of 3 at {STEPS // 2}" in third.out()


NATIVE = """
import os, sys, time, torch
sys.path.insert(0, %r)
import anello.elastic, fake_gpus
fake_gpus.install(setattr)
fake_gpus.hvd.local_rank = lambda: 0

def tensor(value):
    return fake_gpus.on_gpu(torch.full((1000, 3), value, dtype=torch.float64))

weights, model = tensor(0.0), fake_gpus.move_to_gpu(torch.nn.Linear(3, 2).double())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
state = anello.elastic.State(weights=weights, model=model, optimizer=optimizer)

def update():
    weights.add_(1)
    for each in model.parameters():
        each.grad = fake_gpus.on_gpu(torch.ones_like(each))
    optimizer.step()

for world in anello.elastic.worlds(state):
    with world:
        print(f"world {state.change.generation}: rank {world.rank} of {world.size}", flush=True)
        if state.revision == 5:
            print("waits", flush=True)
        while state.revision < 5 or world.min(int(os.path.exists(os.environ["GO"]))) == 0:
            if state.revision >= 5:
                time.sleep(0.02)
            world.barrier()
            state.commit(update)
assert weights.is_cuda and all(each.is_cuda for each in model.parameters())
assert all(each["momentum_buffer"].is_cuda for each in optimizer.state.values())
print("result", state.revision == int(weights.cpu()[7, 1]),
      *(float(each.detach().cpu().sum()).hex() for each in model.parameters()), flush=True)
""" % __file__.rsplit("/", 1)[0]


def test_a_native_state_on_gpus_is_sent_to_a_newcomer(job):
    running = job(NATIVE, 2)
    running.found("world 1: rank")
    running.add()
    running.found("world 2: rank")
    running.remove(running.processes[0]).end()
    running.found("world 3: rank")
    running.go()
    results = {each.found("result (.*)")[1] for each in running.processes}
    assert all(each.ends() == 0 for each in running.processes), running.outs()
    assert len(results) == 1 and results.pop().startswith("True ")
