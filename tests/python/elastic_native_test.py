"""Elastic jobs of Python processes, some of which are killed, stopped or added: the result, and each step's samples, are
those of a training that nothing disturbs."""
import collections
import re
import signal
import time

import pytest
from elastic_jobs import job
from elastic_trainee import BATCH, EPOCHS, SAMPLES

STEPS = -(-SAMPLES // BATCH)
RESULTS = {}


def result_of(process):
    assert process.wait() == 0, process.err()
    return re.search("^result (.*)$", process.out(), re.M)[1]


def undisturbed(kind, tmp_path):
    """The result of a training in one process, and the samples of its steps."""
    if kind not in RESULTS:
        folder = tmp_path / "undisturbed"
        folder.mkdir()
        with job(folder) as alone:
            result = result_of(alone.trainee(kind, fast_from=1))
            RESULTS[kind] = result, samples_of_steps(alone)
    return RESULTS[kind]


def samples_of_steps(made):
    """By revision: the samples of all ranks in the world that committed this revision. If several worlds committed it,
    the last world counts, because an earlier world may have lost all ranks that had committed."""
    taken, world_of = collections.defaultdict(list), {}
    for process in made.processes:
        for line in open(f"{process.path}.steps"):
            what, generation, revision, *samples = line.split()
            if what == "take":
                taken[int(generation), int(revision)] += map(int, samples)
            else:
                world_of[int(revision)] = max(world_of.get(int(revision), 0), int(generation))
    return {revision: sorted(taken[generation, revision]) for revision, generation in world_of.items()}


def expect_undisturbed(made, processes, kind, tmp_path):
    result, steps = undisturbed(kind, tmp_path)
    for process in processes:
        if kind == "integers":
            assert result_of(process) == result
        else:
            its = [float.fromhex(each) for each in result_of(process).split()]
            assert its == pytest.approx([float.fromhex(each) for each in result.split()], rel=1e-12)
    assert samples_of_steps(made) == steps


def start_three(made, kind, fast_from=2):
    for _ in range(3):
        made.trainee(kind, fast_from)
    for process in made.processes:
        process.says("world 1: ")
    by_rank = sorted(made.processes, key=lambda each: re.search(r"rank (\d)", each.out())[1])
    time.sleep(0.1)
    return by_rank


def test_each_epoch_uses_each_sample_once(tmp_path):
    _, steps = undisturbed("integers", tmp_path)
    assert len(steps) == STEPS * EPOCHS
    for epoch in range(EPOCHS):
        used = [sample for step in range(STEPS) for sample in steps[epoch * STEPS + step]]
        assert sorted(used) == list(range(SAMPLES))


@pytest.mark.parametrize("kind, victim", [("integers", 0), ("integers", 1), ("integers", 2), ("adam", 1),
                                          ("loaded", 2)])
def test_goes_on_when_a_rank_is_killed(tmp_path, kind, victim):
    with job(tmp_path, first=3) as made:
        ranks = start_three(made, kind)
        ranks.pop(victim).signal(signal.SIGKILL)
        expect_undisturbed(made, ranks, kind, tmp_path)
        assert all(" of 2 at " in each.out() for each in ranks)
        assert any(f"; left: rank {victim} (" in each.err() or f"left: rank {victim} (" in each.err() for each in ranks)


@pytest.mark.parametrize("kind", ["integers", "sgd", "adam"])
def test_takes_in_a_process_that_comes_later(tmp_path, kind):
    with job(tmp_path, first=3) as made:
        start_three(made, kind)
        late = made.trainee(kind, fast_from=2)
        expect_undisturbed(made, made.processes, kind, tmp_path)
        assert "world 2: rank 3 of 4 at " in late.out()


def test_goes_on_without_a_stopped_rank_which_ends_when_it_continues(tmp_path):
    with job(tmp_path, first=3, silence_ms=3000) as made:
        stopped, *others = start_three(made, "integers")
        stopped.signal(signal.SIGSTOP)
        for process in others:
            process.says(" of 2 at ")
        stopped.signal(signal.SIGCONT)
        expect_undisturbed(made, others, "integers", tmp_path)
        assert stopped.wait() == 1
        assert "lost its place in the job" in stopped.err()


def test_survives_losses_and_newcomers_in_turn(tmp_path):
    with job(tmp_path, first=3) as made:
        start_three(made, "integers", fast_from=6)
        alive = list(made.processes)
        for turn in range(4):
            if turn % 2 == 0:
                alive.pop(1).signal(signal.SIGKILL)
            else:
                alive.append(made.trainee("integers", fast_from=6))
            alive[0].says(f"world {turn + 2}: ")
        alive.append(made.trainee("integers", fast_from=6))
        expect_undisturbed(made, alive, "integers", tmp_path)


def test_a_process_that_is_not_needed_ends_in_good_order(tmp_path):
    with job(tmp_path, maximum=1) as made:
        made.trainee("integers", fast_from=1).says("world 1: ")
        spare = made.trainee("integers", fast_from=1)
        result_of(made.processes[0])
        assert (spare.wait(), spare.out(), spare.err()) == (0, "", "")
        again = made.script("from anello.elastic import Job\njob = Job()\nprint(job.enter())\njob.enter()")
        assert again.wait() == 1 and again.out() == "False\n"
        assert "enter: this process's part in the job has ended" in again.err()


def test_buffers_are_set_back_after_a_failed_step_and_go_to_newcomers(tmp_path):
    """Each rank has its own statistics in its buffers. The ranks do not compare buffers."""
    script = """
import os, time, torch, anello.elastic
norm = torch.nn.BatchNorm1d(2).double()
state = anello.elastic.State(norm=norm)
for world in anello.elastic.worlds(state):
    with world:
        print("world", world.size, flush=True)
        while state.revision < 10 or world.size == 2:
            norm(torch.full((4, 2), 1.0 + world.rank, dtype=torch.float64))  # before a collective that may fail
            if state.revision == 3 and world.rank == 2: os._exit(9)
            time.sleep(0.05 if world.size == 2 else 0)
            world.barrier()
            state.commit(lambda: None)
        print("ends", int(norm.num_batches_tracked) == state.revision, float(norm.running_mean[0]), flush=True)
"""
    with job(tmp_path, first=3) as made:
        ranks = [made.script(script) for _ in range(3)]
        while sum("world 2" in each.out() for each in ranks) < 2:
            time.sleep(0.01)
        late = made.script(script)
        assert sorted(each.wait() for each in ranks) == [0, 0, 9] and late.wait() == 0
        ends = [re.search("^ends (.*) (.*)$", each.out(), re.M).groups() for each in made.processes
                if each.popen.returncode == 0]
        assert [right for right, _ in ends] == ["True"] * 3
        assert len({mean for _, mean in ends}) >= 2
