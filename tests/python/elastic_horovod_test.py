"""Horovod's elastic interface in jobs of real processes: some are killed, stopped or added while they train."""
import json
import re
import signal
import time

import pytest
from elastic_horovod_scripts import BEGINNING, STEPS, TRAINING, check_results

pytest_plugins = "elastic_horovod_scripts"  # its fixtures


@pytest.mark.parametrize("victim", [0, 1, 2])
def test_the_others_go_on_when_a_rank_is_killed(job, victim):
    running = job(TRAINING, 3)
    running.found("waits in world 1")
    running.remove(running.at(victim)).end()
    running.found("waits in world 2")
    running.go()
    check_results(running.processes)
    for each in running.processes:
        assert re.search(f"restore\nreset (.) of 2\nsync\n(anello: .*\n)?world 2: rank \\1 of 2 at {STEPS // 2}\n", each.out())
        assert "sum 2.0" in each.out()
    assert f"left: rank {victim} (" in running.outs()


def test_a_process_that_comes_later_gets_the_state_of_the_others(job):
    running = job(TRAINING, 2)
    running.found("waits in world 1")
    third = running.add()
    running.found("waits in world 2")
    running.go()
    check_results(running.processes)
    assert third.out().startswith(f"sync\nworld 2: rank 2 of 3 at {STEPS // 2}\n")
    for each in running.processes:
        assert "restore" not in each.out()
        assert "sum 3.0" in each.out()
    assert "joined: " in running.outs()


def test_a_stopped_rank_loses_its_place(job):
    running = job(TRAINING, 3, silence_ms=3000)
    running.found("waits in world 1")
    stopped = running.remove(running.at(1))
    stopped.signal(signal.SIGSTOP)
    running.found("waits in world 2")
    stopped.signal(signal.SIGCONT)
    assert stopped.ends() == 1
    assert "it was silent for 3 s" in stopped.out()
    running.go()
    check_results(running.processes)


def test_values_are_restored_after_a_failure_and_kept_after_a_planned_change(job):
    running = job(BEGINNING + """
state = hvd.elastic.ObjectState(value=0, worlds=0)
sync, state.sync = state.sync, lambda: (say("sync"), sync())

@hvd.elastic.run
def train(state):
    state.worlds += 1
    say(f"world {state.worlds}: rank {hvd.rank()} of {hvd.size()}, value {state.value}")
    state.value += 1
    if state.worlds <= 2:
        raise hvd.exceptions.HostsUpdatedInterrupt(skip_sync=state.worlds == 2)
    if state.worlds == 3:
        state.commit()
        state.value += 10
        wait(state.worlds)
    while not gone():
        pass

def wait(world):
    say("waits")
    while True:
        hvd.allreduce(torch.ones(1))

train(state)
""", 3)
    running.found("waits")
    running.remove(running.at(1)).end()
    running.found("world 4")
    running.go()
    for each in running.processes:
        assert each.ends() == 0, each.out()
        lines = [line for line in each.out().splitlines() if not line.startswith("anello: ")]
        ranks = [re.sub("rank .", "rank", line) for line in lines]
        assert ranks == ["sync", "world 1: rank of 3, value 0", "sync", "world 2: rank of 3, value 1",
                         "world 3: rank of 3, value 2", "waits", "sync", "world 4: rank of 2, value 3"]


def test_an_error_of_the_program_ends_only_its_rank(job):
    running = job(TRAINING.replace("wait(state)\n        step", """wait(state)
            if state.worlds == 1 and hvd.rank() == 1:
                raise KeyError("lost")
        step"""), 3)
    running.found("waits in world 1")
    running.go()
    culprit = running.remove(running.at(1))
    assert culprit.ends() == 1
    assert "KeyError: 'lost'" in culprit.out()
    check_results(running.processes)
    assert "KeyError: 'lost'" in running.outs()


def test_a_script_that_ends_in_its_training_leaves_the_job(job):
    running = job(TRAINING.replace("wait(state)\n        step", """wait(state)
            if state.worlds == 1 and hvd.rank() == 1:
                sys.exit(0)
        step"""), 3)
    running.found("waits in world 1")
    running.go()
    began = time.monotonic()
    assert running.remove(running.at(1)).ends() == 0
    assert time.monotonic() - began < 40  # a script that has finished would wait a minute for the others
    check_results(running.processes)


def test_calls_that_differ_end_the_job(job):
    running = job(BEGINNING + """
state = hvd.elastic.ObjectState()

@hvd.elastic.run
def train(state):
    say("world 1: rank", hvd.rank(), "of")
    hvd.allreduce(torch.ones(1 + hvd.rank()), name="uneven")

train(state)
""", 3)
    for each in running.processes:
        assert each.ends() == 1
        assert "Mismatch" in each.out()
        assert each.out().count("world 1") == 1


def test_a_newcomer_with_another_model_ends_alone(job):
    running = job(TRAINING, 2)
    running.found("waits in world 1")
    stranger = running.add(script=TRAINING.replace("model_and_optimizer()\n", "model_and_optimizer(5)\n"))
    assert running.remove(stranger).ends() == 1
    assert "(1, 5)" in stranger.out() and "(1, 4)" in stranger.out()
    running.go()
    check_results(running.processes)


def test_a_process_that_is_not_needed_ends(job):
    running = job(BEGINNING + """
state = hvd.elastic.ObjectState(worlds=1)
train = hvd.elastic.run(lambda state: say("trains"))
train(state)
say("after the training")
while not gone():
    time.sleep(0.01)
""", 2)
    running.found("after the training")
    late = running.add()
    time.sleep(0.5)
    running.go()
    for each in running.processes:
        assert each.ends() == 0, each.out()
    assert "the others have finished the job without it" in late.out()
    assert "trains" not in late.out()


@pytest.mark.parametrize("pad", [True, False])
def test_a_sampler_gives_each_index_once(job, pad):
    running = job(BEGINNING + f"""
dataset = list(range(1003))
sampler = hvd.elastic.ElasticSampler(dataset, pad={pad})
loader = torch.utils.data.DataLoader(dataset, batch_size=4, sampler=sampler)
state = hvd.elastic.TorchState(sampler=sampler, seen=[], worlds=1, step=0)

def count():
    state.worlds += 1

state.register_reset_callbacks([count])

@hvd.elastic.run
def train(state):
    say(f"world {{state.worlds}}: rank {{hvd.rank()}} of")
    for index, batch in enumerate(loader):
        state.seen = state.seen + sum(hvd.allgather_object(batch.tolist()), [])
        sampler.record_batch(index, 4)
        state.commit()
        state.step += 1
        if state.step in (20, 40) and state.worlds == state.step // 20:
            wait(state)
        if not hvd.allreduce(torch.tensor(float(len(sampler) > 4 * (index + 1))), op=hvd.Min):
            break  # the ranks have different numbers of batches
    state.rest = sum(hvd.allgather_object(list(sampler)[4 * (index + 1):]), [])
    say("seen", state.seen + state.rest)

train(state)
""", 3)
    running.found("waits in world 1")
    running.remove(running.at(0)).end()
    running.found("waits in world 2")
    running.add(2)
    running.found("world 3: rank . of")
    running.go()
    for each in running.processes:
        assert each.ends() == 0, each.out()
        seen = json.loads(each.found("seen (.*)")[1])
        assert len(set(seen)) == 1003
        assert len(seen) == 1003 or pad and len(seen) < 1007


WITHOUT_COPIES = TRAINING.replace("State(model, optimizer", "State(model, optimizer, copy=False")


def test_without_copies_the_state_is_that_of_the_last_step(job):
    running = job(WITHOUT_COPIES, 3)
    running.found("waits in world 1")
    running.remove(running.at(0)).end()
    running.found("waits in world 2")
    running.add()
    running.found("waits in world 3")
    running.go()
    check_results(running.processes)


@pytest.mark.parametrize("others", ["commit", "fail too"])
def test_without_copies_a_step_that_was_not_committed_is_not_kept(job, others):
    running = job(WITHOUT_COPIES.replace("        state.step += 1\n", f"""
        if state.step == STEPS // 2 and state.worlds == 1:
            if hvd.rank() == 2:
                time.sleep(0.5)
                os.kill(os.getpid(), 9)
            if hvd.rank() == 0 or {others == "fail too"}:
                hvd.allreduce(torch.ones(1), name="fails")
        state.step += 1
"""), 3)
    running.found("waits in world 1")
    running.go()
    assert running.remove(running.at(2)).ends() == -signal.SIGKILL
    if others == "commit":
        check_results(running.processes)
        assert "rank 0 received" in running.outs()
        return
    for each in running.processes:
        assert each.ends() == 1
        assert "have only a part of it; start the job again from a checkpoint" in each.out()


NEWS = BEGINNING + """
class State(hvd.elastic.ObjectState):
    def on_hosts_updated(self, timestamp, update_res):
        say("news", self._host_messages.empty(), timestamp > 1e9, update_res)
        super().on_hosts_updated(timestamp, update_res)

state = State(value=0)

@hvd.elastic.run
def train(state):
    if hvd.size() == 2:
        say("waits for news")
        while state._host_messages.empty():
            time.sleep(0.01)
        say("commits", state._host_messages.qsize())
        while True:
            state.commit()
            time.sleep(0.01)
    say("has", state._host_messages.empty())

train(state)
"""


def test_scripts_can_wait_for_the_news_of_a_change(job):
    running = job(NEWS, 2)
    running.found("waits for news")
    running.add()
    for each in running.processes:
        assert each.ends() == 0, each.out()
        assert "has True" in each.out()
    for each in running.processes[:2]:
        assert [line for line in each.out().splitlines() if not line.startswith("anello: ")] == [
            "waits for news", "news True True 3", "commits 1", "has True"]


def test_a_process_that_its_scheduler_signals_leaves_at_a_commit(job):
    running = job(TRAINING, 3)
    running.found("waits in world 1")
    leaver = running.remove(running.at(1))
    leaver.signal(signal.SIGTERM)
    assert leaver.ends() == 0, leaver.out()
    assert "SIGTERM asks this process to leave its job" in leaver.out()
    running.found("waits in world 2")
    running.go()
    check_results(running.processes)
    for each in running.processes:
        assert "restore" not in each.out()


def test_a_child_of_a_process_ends_by_sigterm_as_usual(job):
    running = job(BEGINNING + """
import signal
state = hvd.elastic.ObjectState(value=0)

@hvd.elastic.run
def train(state):
    child = os.fork()
    if child == 0:
        time.sleep(300)
        os._exit(0)
    os.kill(child, signal.SIGTERM)
    say("child", os.waitpid(child, 0)[1])
    time.sleep(0.5)
    state.commit()

train(state)
""", 2)
    for each in running.processes:
        assert each.ends() == 0, each.out()
        assert "child 15" in each.out() and "asks this process" not in each.out()
