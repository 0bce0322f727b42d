"""Horovod's elastic interface: calls that are wrong when ranks change, and what ends with a world."""
import signal

import pytest
from elastic_horovod_scripts import BEGINNING, TRAINING, check_results

pytest_plugins = "elastic_horovod_scripts"  # its fixtures


@pytest.mark.parametrize("root", ["0", "hvd.elastic.source_rank()"])
def test_a_program_must_not_broadcast_an_older_state_of_rank_0(job, root):
    script = TRAINING.replace('say("sync")', f"self.own = hvd.broadcast_object(self.own, root_rank={root})")
    running = job(script.replace("step=0,", "step=0, own=7,").replace("        state.step += 1\n", """
        if state.step == STEPS // 2 and state.worlds == 1:
            if hvd.rank() == 2:
                time.sleep(0.5)
                os.kill(os.getpid(), 9)
            if hvd.rank() == 0:
                hvd.allreduce(torch.ones(1), name="fails")
        state.step += 1
"""), 3)
    running.found("waits in world 1")
    running.go()
    assert running.remove(running.at(2)).ends() == -signal.SIGKILL
    if root != "0":
        check_results(running.processes)
        return
    for each in running.processes:
        assert each.ends() == 1
        assert "rank 1 has the newest state, so sync() must not broadcast from rank 0" in each.out()


def test_process_sets_of_init_are_made_again_and_others_end_with_their_world(job):
    running = job(BEGINNING.replace("hvd.init()", "hvd.init(process_sets=[pair, [0, 2]])").replace("hvd.init(", """
pair = hvd.ProcessSet([0, 1])
added = hvd.ProcessSet([0])
hvd.init(""", 1) + """
state = hvd.elastic.ObjectState(worlds=0)

@hvd.elastic.run
def train(state):
    state.worlds += 1
    say(f"world {state.worlds}: rank {hvd.rank()} of {hvd.size()}")
    if hvd.rank() < 2:
        say("pair", hvd.allreduce(torch.ones(1), op=hvd.Sum, process_set=pair).item(), pair.process_set_id)
    if state.worlds == 1:
        hvd.add_process_set(added)
    else:
        try:
            added.size()
        except ValueError as error:
            say(error)
        hvd.add_process_set(added)
    state.commit()
    wait(state)

train(state)
""", 3)
    running.found("waits in world 1")
    running.remove(running.at(1)).end()
    running.found("waits in world 2")
    running.go()
    for each in running.processes:
        assert each.ends() == 0, each.out()
        assert "pair 2.0 1\n" in each.out().split("world 2: ")[1]
        assert "its world has ended: in an elastic job, add process sets at the beginning" in each.out()


def test_a_newcomer_must_not_call_an_operation_alone(job):
    running = job(TRAINING, 2)
    running.found("waits in world 1")
    hasty = running.add(script=TRAINING.replace("@hvd.elastic.run", """
hvd.broadcast_parameters(model.state_dict(), root_rank=0)

@hvd.elastic.run"""))
    assert running.remove(hasty).ends() == 1
    assert "this process has joined a job that trains already" in hasty.out()
    running.go()
    check_results(running.processes)


def test_gradients_that_are_on_their_way_when_a_rank_dies_are_given_up(job):
    running = job(TRAINING.replace("ROWS).backward()\n", """ROWS).backward()
    hvd.allreduce(torch.ones(1), name="a metric")
""").replace("    error = state.model", """
    if state.step == STEPS // 2 and state.worlds == 1 and hvd.rank() == 2:
        os.kill(os.getpid(), 9)
    error = state.model"""), 3)
    running.found("waits in world 1")
    running.go()
    assert running.remove(running.at(2)).ends() == -signal.SIGKILL
    check_results(running.processes)
