"""Horovod's elastic interface: calls that are wrong when ranks change."""
import signal

import pytest
from elastic_horovod_scripts import TRAINING, check_results

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


def test_an_operation_that_a_newcomer_could_not_call_is_a_warning(job):
    running = job(TRAINING.replace("@hvd.elastic.run", """
hvd.broadcast_parameters(model.state_dict(), root_rank=0)

@hvd.elastic.run"""), 2)
    running.go()
    for each in running.processes:
        assert each.ends() == 0 and each.out().count("a process that joins later would call it alone") == 1


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


def test_a_forgotten_commit_is_suggested(job):
    script = TRAINING.replace("state.commit()", "pass").replace("        state.step += 1\n", """
        if state.step == STEPS // 2 and state.worlds == 1 and hvd.rank() == 2:
            os.kill(os.getpid(), 9)
        state.step += 1
""")
    running = job("import anello.horovod.elastic_run as run\nrun._LONG_S = 0\n" + script, 3)
    running.found("waits in world 1")
    running.go()
    assert running.remove(running.at(2)).ends() == -signal.SIGKILL
    for each in running.processes:
        assert each.ends() == 0, each.out()
    said = "the training goes on at its last commit, but it has made none in 0 s (did it forget state.commit()?), after: "
    assert any(said in each.out() for each in running.processes)
