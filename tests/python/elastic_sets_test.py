"""Process sets of an elastic job: the sets given to hvd.init() keep their members, and other sets end with their
world."""
import json
import re

import pytest
from elastic_horovod_scripts import BEGINNING, TRAINING, check_results

from anello.errors import Mismatch
from anello.horovod.lasting_sets import LastingSets
from anello.horovod.process_sets import ProcessSet

pytest_plugins = "elastic_horovod_scripts"  # its fixtures


def follow(processes):
    """Calls follow() in a world of these processes.

    Returns, for each process, the ranks of all sets and the ranks of lost sets.
    """
    texts = []

    class Asks(Exception):
        pass

    def ask(text):
        texts.append(text)
        raise Asks

    for each in processes:
        with pytest.raises(Asks):
            each.follow(ask)
    found = []
    for each in processes:
        try:
            lost = each.follow(lambda _: texts)
            found.append(([its.ranks for its in each.all], [its.ranks for its in lost]))
        except Mismatch as error:
            found.append(error)
    return found


@pytest.fixture
def started(monkeypatch):
    def start(place, *asked):
        monkeypatch.setenv("ANELLO_PLACE", place)
        return LastingSets([ProcessSet(each) for each in asked])
    return start


def test_sets_follow_the_places_of_their_processes(started):
    sets = [0, 2], [1], [1, 4]
    a, b, c = (started(place, *sets) for place in "abc")
    assert follow([a, b, c]) == [([[0, 2], [1], []], [])] * 3, "there is no rank 4 yet"
    assert follow([c, a]) == [([[0, 1], [], []], [[]])] * 2
    new_b, d = started("b", *sets), started("d", *sets)
    assert follow([a, c, d, new_b]) == [([[0, 1], [3], []], [])] * 4
    e = started("e", *sets)
    assert follow([a, c, d, new_b, e]) == [([[0, 1], [3], [1, 4]], [])] * 5
    assert follow([e, d]) == [([[], [], [0]], [[], []])] * 2


def test_a_start_that_has_failed_on_some_ranks_gives_the_same_places(started):
    a, b, c = (started(place, [0, 1]) for place in "abc")
    follow([a, b])
    assert follow([c, b, a]) == [([[1, 2]], [])] * 3


def test_without_places_a_set_keeps_its_processes(started):
    a, b = started("", [0]), started("", [0])
    assert follow([a, b]) == [([[0]], [])] * 2
    assert follow([started("", [0]), a]) == [([[1]], [])] * 2
    assert follow([b, started("", [0])]) == [([[]], [[]])] * 2


def test_other_sets_are_an_error_of_a_newcomer_alone(started):
    a, b = started("a", [0]), started("b", [1])
    for error in follow([a, b]):
        assert "rank 0 begins with the process sets [[0]], rank 1 with [[1]]" in str(error) and error.rank == 1
    a, b = started("a", [0]), started("b", [0])
    follow([a, b])
    mistaken, right, other = follow([started("c", [1]), a, b])
    assert "rank 1 begins with the process sets [[0]], this rank with [[1]]" in str(mistaken)
    assert mistaken.rank is None
    assert right == other == ([[1]], [])


def test_sets_are_an_error_of_a_newcomer_alone_if_the_job_has_none(started):
    a, b = started("a"), started("b")
    a.has_begun = b.has_begun = True
    mistaken, *others = follow([started("c", [0, 1]), a, b])
    assert "rank 1 begins with the process sets [], this rank with [[0, 1]]" in str(mistaken)
    assert mistaken.rank is None
    assert others == [([], [])] * 2


def test_sets_whose_ranks_never_came_are_those_of_the_job_too(started):
    a, b = started("a", [7]), started("b", [7])
    follow([a, b])
    right, other, mistaken = follow([a, b, started("c", [8])])
    assert mistaken.rank is None and right == other == ([[]], [])


@pytest.mark.parametrize("wrong, why", [([[0], [0]], "two sets have the ranks"), ([[-1]], "a negative rank")])
def test_sets_that_no_world_can_have_are_refused(started, wrong, why):
    with pytest.raises(ValueError, match=why):
        started("a", *wrong)


SCRIPT = BEGINNING.replace("hvd.init()", """
import re
pair, last, added = hvd.ProcessSet([0, 1]), hvd.ProcessSet([2]), hvd.ProcessSet([0])
place_of = lambda path: re.search(r"script(\\d+)", path)[1]
os.environ["ANELLO_PLACE"] = place_of(__file__)
hvd.init(process_sets=[pair, last])""") + """
state = hvd.elastic.ObjectState(worlds=0)
state.register_reset_callbacks([lambda: say("added:", end_of(added))])

def end_of(made):
    try:
        made.size()
    except ValueError as error:
        return error

@hvd.elastic.run
def train(state):
    state.worlds += 1
    say(f"world {state.worlds}: rank {hvd.rank()} of {hvd.size()}")
    hvd.add_process_set(added)
    sums = [hvd.allreduce(torch.ones(1), op=hvd.Sum, process_set=each).item() if each.included() else None
            for each in (pair, last, added)]
    say("sets", [[each.process_set_id, each.ranks, its] for each, its in zip((pair, last, added), sums)])
    state.commit()
    wait(state)

train(state)
"""


def place_of(path):
    return re.search(r"script(\d+)", path)[1]


def sets_in(world, process):
    text = process.found(rf"world {world}: rank . of .\nsets (.*)")[1]
    return json.loads(text.replace("None", "null"))


def test_sets_of_init_keep_their_members_and_others_end_with_their_world(job):
    running = job(SCRIPT, 3)
    running.found("waits in world 1")
    first, second, third = (running.at(rank) for rank in range(3))
    assert sets_in(1, first) == [[1, [0, 1], 2.0], [2, [2], None], [3, [0], 1.0]]
    victim = running.remove(first)
    victim.end()
    running.found("waits in world 2")
    for each in second, third:
        (_, of_pair, _), (_, of_last, _), _ = found = sets_in(2, each)
        assert [its[0] for its in found] == [1, 2, 3]
        assert len(of_pair) == len(of_last) == 1 and of_pair != of_last
    assert sets_in(2, second)[0][2] == sets_in(2, third)[1][2] == 1.0
    again = running.add(script=SCRIPT.replace("place_of(__file__)", f"'{place_of(str(victim.path))}'"))
    running.found("waits in world 3")
    assert len(sets_in(3, again)[0][1]) == 2 and sets_in(3, again)[0][2] == sets_in(3, second)[0][2] == 2.0
    running.remove(third).end()
    running.found("waits in world 4")
    assert sets_in(4, second) == [[1, [0, 1], 2.0], [2, [], None], [3, [0], sets_in(4, second)[2][2]]]
    running.go()
    for each in running.processes:
        assert each.ends() == 0, each.out()
    assert running.outs().count("all processes of the process set of the first ranks [2] have ended: it has no ranks") == 1
    assert "added: ProcessSet(process_set_id=None, ranks=[0], mpi_comm=None) is not registered: its world has ended" in second.out()


@pytest.mark.parametrize("sets", [[[0, 1]], []])
def test_a_newcomer_with_other_sets_ends_alone(job, sets):
    script = TRAINING.replace("hvd.init()", f"hvd.init(process_sets={sets})")
    running = job(script, 2)
    running.found("waits in world 1")
    stranger = running.add(script=script.replace(f"={sets}", "=[[0], [0, 1]]"))
    assert running.remove(stranger).ends() == 1
    assert f"begins with the process sets {sets}, this rank with [[0], [0, 1]]" in stranger.out()
    running.go()
    check_results(running.processes)
