"""Elastic jobs with mistakes in scripts, or with processes that do not fit: their errors; the other processes go on."""
import collections
import dataclasses
import datetime
import enum
import signal
import time

import numpy
import pytest
from elastic_jobs import job

import anello
from anello.elastic import State, batches, hash_of
from anello.elastic.comparison import as_text

BEGIN = """
import anello, numpy, os, sys, time
import anello.elastic as elastic
state = elastic.State(weights=numpy.zeros(8), steps=0)
def one_step(world, update=lambda: None):
    world.allreduce(numpy.ones(4))
    state.commit(update)
"""
LOOP = BEGIN + """
for world in elastic.worlds(state):
    with world:
        print("world", world.size, flush=True)
"""


def code(text, begin=LOOP):
    """A script; the text is the body of its `with` block."""
    return begin + "\n".join(" " * 8 + line for line in text.strip().splitlines())


def failing(tmp_path, script):
    """The error of a job of one process."""
    with job(tmp_path) as made:
        process = made.script(script)
        assert process.wait() == 1, process.out()
        return process.err()


@dataclasses.dataclass
class Point:
    x: int
    cache: int = dataclasses.field(default=0, compare=False)


class Token(enum.Enum):
    """If the members were compared as texts, the texts would contain the addresses of the values."""

    FIRST, SECOND = object(), object()


class Custom:
    """An object that cannot be sent."""

    def __reduce__(self):
        raise TypeError("a Custom cannot be pickled")


@pytest.mark.parametrize("value, why", [(Custom(), "cannot be pickled"), (numpy.array(["a"]), "cannot be sent"),
                                        (numpy.zeros((4, 4)).T[::2], "not contiguous"),
                                        (numpy.broadcast_to(numpy.zeros(1), 1), "read-only")])
def test_what_cannot_be_sent_is_refused_at_once(value, why):
    with pytest.raises((TypeError, ValueError), match=rf"state.value \(.*\) cannot be sent to other ranks: .*{why}"):
        State(value=value)


def test_names_of_entries():
    for name in ("commit", "world", "_entries", "_mine"):
        with pytest.raises(ValueError, match=f"an entry cannot have the name '{name}'"):
            State(**{name: 1})
    state = State(weights=numpy.zeros(2), step=0)
    with pytest.raises(AttributeError, match="'epoch' would not survive: .* which are weights, step"):
        state.epoch = 1
    with pytest.raises(AttributeError, match="the state has no 'epoch'; it has weights, step"):
        assert state.epoch
    with pytest.raises(AttributeError, match="write into it, do not replace it"):
        state.weights = numpy.ones(2)
    with pytest.raises(TypeError, match=r"state.step \(function\) cannot be sent to other ranks"):
        state.step = lambda: 0
    state.weights += 1
    state.step += 1
    assert state.weights.tolist() == [1, 1] and state.step == 1


def test_a_state_without_a_job_says_so():
    state = State(step=0)
    assert state.revision == 0
    for call in (state.commit, lambda: state.world, lambda: state.change,
                 lambda: next(batches(9, global_batch=3, seed=1, state=state))):
        with pytest.raises(ValueError, match="the state belongs to no job yet"):
            call()


def test_without_a_rendezvous_the_error_says_what_to_start():
    with pytest.raises(anello.Error, match="start `anello rendezvous --min-np N`") as caught:
        anello.elastic.Job()
    assert caught.value.code == "configuration"


def test_equal_values_have_equal_texts_and_others_do_not():
    values = [None, 0, False, 0.0, -0.0, float("nan"), "", b"", "0", [], (), {}, set(), [0], [0, 1], [[0], 1], [[0, 1]],
              {1: [2]}, {"1": [2]}, {0, 1}, numpy.float32(1), numpy.float64(1), numpy.zeros(2), numpy.zeros((1, 2)),
              numpy.ones(2), collections.deque([0]), datetime.date(2026, 1, 1), datetime.date(2026, 1, 2), Point(1), Point(2),
              Token.FIRST, Token.SECOND,
              numpy.array(["a", 1], dtype=object), {"a": 1, "b": 2}]
    texts = [as_text(each) for each in values]
    assert len(set(texts)) == len(values)
    assert as_text([numpy.array(["a" * k, "b"], dtype=object) for k in (1, 99)]) == as_text(
        [numpy.array(["a" * k, "b"], dtype=object) for k in (1, 99)])
    assert as_text(Point(1, cache=3)) == as_text(Point(1)) and as_text(Point) != as_text(Point(1))
    assert b"0x" not in as_text(Token.FIRST)
    assert as_text({"b": 2, "a": 1}) == texts[-1] and as_text({1, 0}) == as_text({0, 1})


def test_hashes_are_those_of_memory():
    assert hash_of(b"").hex() == "99aa06d3014798d86001c324468d497f"
    assert hash_of(numpy.zeros(3)) != hash_of(numpy.zeros(4))


def test_a_loop_without_its_with_block_is_refused(tmp_path):
    script = BEGIN + "for world in elastic.worlds(state): one_step(world)"
    assert "must be a block `with world:`" in failing(tmp_path, script)


@pytest.mark.parametrize("body, why", [
    ("state.commit()", "commit() needs the functions that write the state"),
    ("state.commit(state.weights.fill(1))", "an update must be a function, not None"),
    ("for batch in elastic.batches(9, global_batch=3, seed=1, state=state): pass", "the last batch was not committed"),
    ("list(elastic.worlds(state))", "this state has had a job"),
    ("state.commit(lambda: state.commit(lambda: None))", "is running or has failed"),
    ("world.finish()", "this world belongs to an elastic job"),
    ("world.leave()", "this world belongs to an elastic job"),
])
def test_a_mistake_is_an_error_that_names_the_remedy(tmp_path, body, why):
    assert why in failing(tmp_path, code(body))


def test_calls_on_a_world_that_has_ended_are_refused(tmp_path):
    with job(tmp_path) as made:
        process = made.script(code("group = world.group([0]); group.allreduce(numpy.ones(1)); one_step(world)") + """
for each in (world, group):
    try: each.allreduce(numpy.ones(1))
    except (ValueError, anello.RankFailed) as error: print(error)
try: state.commit(lambda: None)
except ValueError as error: print(error)
print(world.failure(), state.revision)
""")
        assert process.wait() == 0, process.err()
        lines = process.out().splitlines()[1:]
        assert lines[0] == "the world has ended" and "has ended" in lines[1] and "commit" in lines[2]
        assert lines[3] == "None 1"


def test_a_process_with_another_state_ends_alone(tmp_path):
    body = "while state.revision < 200 or world.size < 2 and state.revision < 3000:\n    time.sleep(0.01)\n    one_step(world)"
    with job(tmp_path) as made:
        first = made.script(code(body))
        first.says("world 1")
        odd = made.script(code(body, LOOP.replace("zeros(8)", "zeros(9)")))
        assert odd.wait() == 1
        assert "entry 0 of the state differs: weights: 8 of float64 on rank 0, weights: 9 of float64 on rank 1" in odd.err()
        other = made.script(code(body, LOOP.replace("steps=0", "steps=numpy.zeros(1)")))
        assert other.wait() == 1 and "steps: a value on rank 0, steps: 1 of float64 on rank 1" in other.err()
        good = made.script(code(body))
        assert (first.wait(), good.wait()) == (0, 0), first.err() + good.err()


@pytest.mark.parametrize("begins, found", [(0, 1), (5, 8)])
@pytest.mark.parametrize("entry, change", [("weights", "state.weights[0] += world.rank"), ("steps", "state.steps = world.rank")])
def test_what_differs_between_ranks_ends_the_job_at_the_next_comparison(tmp_path, begins, found, entry, change):
    """The ranks compare their states after the commits 1, 2, 4, 8, ..."""
    body = f"""
def update():
    if state.revision >= {begins}: {change}
while state.revision < 100: one_step(world, update)
"""
    with job(tmp_path, first=2) as made:
        ranks = [made.script(code(body)) for _ in range(2)]
        for each in ranks:
            assert each.wait() == 1
            assert f"entry '{entry}' of the state differs at revision {found}: rank 1 has hash" in each.err()


def test_states_that_are_rounded_differently_go_on_if_they_are_not_compared(tmp_path):
    """Each rank keeps its own state. A rank that joins gets the state of the first source."""
    begin = LOOP.replace("worlds(state)", "worlds(state, verify=False)")
    body = """
def update(): state.weights[0] += 1 + 1e-9 * world.rank
while state.revision < 40 or world.size == 2 and state.revision < 3000:
    time.sleep(0.01)
    one_step(world, update)
print("result", state.revision, round(state.weights[0]) == state.revision)
"""
    with job(tmp_path, first=2) as made:
        ranks = [made.script(code(body, begin)) for _ in range(2)]
        for each in ranks:
            each.says("world 2")
        other = made.script(code(body))
        assert other.wait() == 1 and "the states are not compared on rank 0, none on rank 2" in other.err(), other.err()
        late = made.script(code(body, begin))
        for each in [*ranks, late]:
            assert each.wait() == 0 and "True" in each.out(), each.err()


@pytest.mark.parametrize("change, why", [
    ("state.steps = lambda: 0", "state.steps (function) cannot be sent to other ranks: Can't pickle"),
    ("state.list.append(lambda: 0)", "state.list (list) cannot be sent to other ranks: Can't pickle"),
    ("import threading; state.list.append(threading.Lock())", "state.list (list) cannot be copied at a commit: cannot pickle"),
])
def test_a_value_that_cannot_be_sent_any_more_is_named_before_a_rank_is_lost(tmp_path, change, why):
    assert why in failing(tmp_path, code(change + "\none_step(world)", LOOP.replace("steps=0", "steps=0, list=[]")))


def test_an_operation_in_an_update_is_a_warning(tmp_path):
    with job(tmp_path, first=2) as made:
        ranks = [made.script(code("one_step(world, lambda: world.average(1.0))\none_step(world)")) for _ in range(2)]
        assert [each.wait() for each in ranks] == [0, 0]
        for each in ranks:
            assert each.err().count("an operation was carried out: if the function that writes the state calls it") == 1
            assert "during commit 1 " in each.err()


def test_an_update_that_raises_ends_that_rank_and_the_others_go_on(tmp_path):
    body = """
def update():
    state.weights[:] += 1
    if world.size == 3 and world.rank == 1 and state.revision == 5: raise KeyError("no memory")
while state.revision < 20: one_step(world, update)
print("result", state.weights[0])
"""
    with job(tmp_path, first=3) as made:
        ranks = [made.script(code(body)) for _ in range(3)]
        assert sorted(each.wait() for each in ranks) == [0, 0, 1]
        assert [("result 20.0" in each.out(), "KeyError: 'no memory'" in each.err()) for each in ranks
                if each.popen.returncode == 0] == [(True, False)] * 2


def test_a_rank_whose_update_has_failed_receives_the_state_of_the_others(tmp_path):
    """An error of the world interrupts the update of one rank. The rank survives this error and goes on."""
    body = """
def update():
    state.weights[:] += 1
    if world.size == 3 and state.revision == 5:
        if world.rank == 2: os._exit(9)
        if world.rank == 1:
            state.weights[:] = -1
            world.barrier()  # a mistake: it fails when rank 2 has ended
while state.revision < 20:
    one_step(world, update)
print("result", state.weights[0], state.change.receivers)
"""
    with job(tmp_path, first=3) as made:
        ranks = [made.script(code(body)) for _ in range(3)]
        assert sorted(each.wait() for each in ranks) == [0, 0, 9]
        for each in ranks:
            assert each.popen.returncode == 9 or "result 20.0 [1]" in each.out()


def test_a_value_that_a_newcomer_cannot_take_ends_it_and_the_others_go_on(tmp_path):
    begin = LOOP.replace("steps=0", "schedule=Schedule()").replace("state = ", """
class Schedule:
    def state_dict(self): return 3
    def load_state_dict(self, given):
        if len(sys.argv) > 1 and given == 3: raise KeyError("another version")
state = """, 1)
    body = "while state.revision < 1500 and (state.revision < 20 or not os.path.exists(END)): time.sleep(0.02); one_step(world)"
    script = code(body, begin.replace("import anello,", f"END = {str(tmp_path / 'end')!r}\nimport anello,"))
    with job(tmp_path) as made:
        first = made.script(script)
        first.says("world 1")
        odd = made.start("-c", script, "odd")
        assert odd.wait() == 1 and "KeyError: 'another version'" in odd.err()
        (tmp_path / "end").touch()
        assert first.wait() == 0, first.err()


def test_values_are_set_back_after_a_step_that_failed(tmp_path):
    body = """
while state.revision < 12:
    state.steps += 1
    if state.revision == 5 and world.size == 2 and world.rank == 1: os._exit(9)
    one_step(world)
print("result", state.steps)
"""
    with job(tmp_path, first=2) as made:
        ranks = [made.script(code(body)) for _ in range(2)]
        assert sorted(each.wait() for each in ranks) == [0, 9]
        assert "result 12" in ranks[0].out() + ranks[1].out()


def test_ctrl_c_ends_the_wait_for_a_world(tmp_path):
    with job(tmp_path, minimum=2, first=2) as made:
        process = made.script(LOOP.replace("for world", "print('joins', flush=True)\nfor world"))
        process.says("joins")
        time.sleep(0.5)
        process.signal(signal.SIGINT)
        began = time.monotonic()
        assert process.wait() in (1, 130, -signal.SIGINT)
        assert time.monotonic() - began < 5 and "KeyboardInterrupt" in process.err()


def test_ctrl_c_ends_the_wait_for_the_end_of_others(tmp_path):
    with job(tmp_path, first=2) as made:
        ranks = [made.script(code("if world.rank == 1: time.sleep(600)\nprint('ends', world.rank, flush=True)"))
                 for _ in range(2)]
        for each in ranks:
            each.says("world 2")
        first = next(each for each in ranks if _says_within(each, "ends 0", 3))
        time.sleep(0.5)
        first.signal(signal.SIGINT)
        first.wait(20)
        assert "KeyboardInterrupt" in first.err()


def _says_within(process, text, limit):
    end = time.monotonic() + limit
    while text not in process.out() and time.monotonic() < end:
        time.sleep(0.01)
    return text in process.out()


JOB = """
import anello.elastic, numpy, time
job = anello.elastic.Job()
assert job.enter()
def begin_and_end():
    job.begin_synchronization("")
    job.end_synchronization({})
"""


@pytest.mark.parametrize("text, why", [
    ("job.commit()", "commit: the state has not been synchronized in this world"),
    ("job.finish()", "finish: the state has not been synchronized in this world"),
    ("job.end_synchronization({})", "end_synchronization: call begin_synchronization() in this world first"),
    ("job.begin_synchronization(''); job.begin_synchronization('')", "begin_synchronization: it is called once in each"),
    ("begin_and_end(); job.begin_synchronization('')", "begin_synchronization: it is called once in each"),
    ("job.begin_synchronization(''); job.commit()", "commit: the state has not been synchronized in this world"),
    ("job.end_synchronization({'w': b'short'})", "the hash of 'w' has 5 bytes, not 16"),
    ("begin_and_end(); job.finish(); job.commit()", "commit: the state has not been synchronized in this world"),
    ("begin_and_end(); job.finish(); job.world", "the job has no world"),
    ("begin_and_end(); job.finish(); job.enter()", "enter: this process's part in the job has ended"),
    ("job.leave(); job.revision", "the job has ended"),
])
def test_calls_of_a_job_that_are_out_of_turn_are_refused(tmp_path, text, why):
    assert why in failing(tmp_path, JOB + text)


def test_a_job_says_how_far_it_is(tmp_path):
    with job(tmp_path) as made:
        process = made.script(JOB + """
print(job.revision, job.holds, job.clean, job.finished)
begin_and_end()
job.commit(lambda: print(job.revision, job.holds, job.clean))
try: job.commit(lambda: 1 / 0)
except ZeroDivisionError as error: print(job.survives(error), job.revision, job.clean)
try: job.commit()
except ValueError as error: print(error)
print(job.survives(error := anello.RankFailed("x", "rank_dead", 0)), job.change.sources, job.change.receivers)
job.finish()
print(job.finished)
""")
        assert process.wait() == 0, process.err()
        assert process.out().splitlines() == [
            "0 False True False", "0 True False", "False 1 False",
            "State::commit: a commit after revision 1 is running or has failed; only a synchronization makes the state "
            "complete again", "False [0] []", "True"]


def test_a_planned_end_cannot_be_ignored(tmp_path):
    script = JOB + """
begin_and_end()
print("world", job.world.size, flush=True)
try:
    while job.world.size < 2: time.sleep(0.01), job.commit()
except anello.elastic.WorldEnds:
    try: job.commit()
    except ValueError as error: print(error)
    assert job.enter()
    begin_and_end()
job.finish()
"""
    with job(tmp_path) as made:
        first = made.script(script)
        first.says("world 1")
        second = made.script(script)
        assert (first.wait(), second.wait()) == (0, 0), first.err() + second.err()
        assert "commit: the world has ended as planned: call next() or enter()" in first.out()
