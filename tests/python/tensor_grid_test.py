"""Every kind of object x every verb x in place, out=, list, named and async: the right value, or an error in time."""
import os
import warnings

import numpy
import pytest

from tensor_kinds import CHANGED, INPUT, NUMBER, REFUSED, kinds, require_fences

pytestmark = pytest.mark.filterwarnings("ignore")
warnings.simplefilter("ignore")
KINDS = {kind.name: kind for kind in kinds()}
if "torch" in os.environ.get("ANELLO_TEST_KINDS", "torch"):
    from tensor_kinds import torch_kinds
    KINDS.update({kind.name: kind for kind in torch_kinds()})
if "foreign" in os.environ.get("ANELLO_TEST_KINDS", ""):
    from foreign_kinds import foreign_kinds
    KINDS.update({kind.name: kind for kind in foreign_kinds()})


@pytest.fixture(scope="module")
def unrelated():
    """Unrelated arrays, including those made while an operation ran."""
    made = [numpy.full(2, 0.5) for _ in range(10000)]
    yield made
    assert all((each == 0.5).all() for each in made)


class Verb:
    """A verb in one form: `run(case, x)` returns its values, which must equal `expected`."""

    def __init__(self, role, run, expected, ranks=None):
        self.role, self.run, self.expected, self.root = role, run, expected, ranks


class Case:
    """The arguments with which a verb is tested."""

    def __init__(self, world, agenda, kind, unrelated):
        self.world, self.agenda, self.kind, self.unrelated = world, agenda, kind, unrelated
        self.after, self.before = (world.rank + 1) % world.size, (world.rank - 1) % world.size

    def all(self):
        return [float(rank + 1) for rank in range(self.world.size)]

    def total(self):
        return float(any(self.all())) if self.kind.dtype == "?" else sum(self.all())

    def of_root(self):
        return 1.0 if self.kind.dtype == "?" else 2.0

    def of(self, rank):
        return 1.0 if self.kind.dtype == "?" else rank + 1.0

    def read(self, made):
        if isinstance(made, (int, float, list, numpy.generic, numpy.ndarray)):
            return numpy.asarray(made).reshape(-1).astype("f8").tolist()
        return self.kind.read(made)

    def wait(self, work):
        self.unrelated.extend(numpy.full(2, 0.5) for _ in range(5))
        return work.wait()

    def new(self, times=1):
        return self.kind.empty(self.kind.count * times)


def received(case, x):
    """Receives from the previous rank; x is sent."""
    into = case.new()
    work = case.world.send_async(x, case.after)
    case.world.recv(into, case.before)
    work.wait()
    return into


def filled(case, x):
    """Receives the message of the previous rank into x. If x is refused, this happens before this rank sends."""
    work = case.world.recv_async(x, case.before)
    case.world.send(numpy.full(case.kind.count, case.of(case.world.rank), case.kind.dtype), case.after)
    return work.wait()


def gathered(case):
    return [case.of(rank) for rank in range(case.world.size) for _ in range(case.kind.count)]


def totals(case):
    return [case.total()] * case.kind.count


def roots(case):
    return [case.of_root()] * case.kind.count


def many(case):
    return numpy.full(case.kind.count * case.world.size, case.of(case.world.rank), case.kind.dtype)


VERBS = {
    "allreduce": Verb("changed", lambda c, x: c.world.allreduce(x), totals),
    "allreduce_async": Verb("changed", lambda c, x: c.wait(c.world.allreduce_async(x)), totals),
    "allreduce list": Verb("changed", lambda c, x: c.world.allreduce([c.kind.empty(3), x])[1], totals),
    "allreduce named": Verb("changed", lambda c, x: c.wait(c.agenda.allreduce([c.kind.empty(3), x]))[1], totals),
    "allreduce out=": Verb("input", lambda c, x: c.world.allreduce(x, out=c.new()), totals),
    "allreduce named out": Verb("input", lambda c, x: c.wait(c.agenda.allreduce([x], [c.new()]))[0], totals),
    "allreduce into": Verb("output", lambda c, x: c.world.allreduce(
        numpy.full(c.kind.count, c.of(c.world.rank), c.kind.dtype), out=x), totals),
    "allreduce named into": Verb("output", lambda c, x: c.wait(c.agenda.allreduce(
        [numpy.full(c.kind.count, c.of(c.world.rank), c.kind.dtype)], [x]))[0], totals),
    "reduce": Verb("changed", lambda c, x: c.world.reduce(x, 1), totals, 1),
    "reduce_async": Verb("changed", lambda c, x: c.wait(c.world.reduce_async(x, 1)), totals, 1),
    "reduce out=": Verb("input", lambda c, x: c.world.reduce(x, 1, out=c.new()), totals, 1),
    "broadcast": Verb("changed", lambda c, x: c.world.broadcast(x, 1), roots),
    "broadcast_async": Verb("changed", lambda c, x: c.wait(c.world.broadcast_async(x, 1)), roots),
    "broadcast list": Verb("changed", lambda c, x: c.world.broadcast([c.kind.empty(3), x], 1)[1], roots),
    "broadcast named": Verb("changed", lambda c, x: c.wait(c.agenda.broadcast([x], 1))[0], roots),
    "allgather out": Verb("input", lambda c, x: c.world.allgather(x, c.new(c.world.size)), gathered),
    "allgather into": Verb("output", lambda c, x: c.world.allgather(
        numpy.full(c.kind.count // c.world.size, 1, c.kind.dtype), x), lambda c: [1.0] * c.kind.count),
    "gather out": Verb("input", lambda c, x: c.world.gather(x, c.new(c.world.size), 1), gathered, 1),
    "scatter into": Verb("output", lambda c, x: c.world.scatter(many(c) if c.world.rank == 1 else None, x, 1), roots),
    "scatter": Verb("input", lambda c, x: c.world.scatter(x, c.kind.empty(c.kind.count // c.world.size), 1),
                    lambda c: [c.of_root()] * (c.kind.count // c.world.size)),
    "reduce_scatter into": Verb("output", lambda c, x: c.world.reduce_scatter(many(c), x), totals),
    "reduce_scatter": Verb("input", lambda c, x: c.world.reduce_scatter(
        x, c.kind.empty(c.kind.count // c.world.size)), lambda c: [c.total()] * (c.kind.count // c.world.size)),
    "alltoall": Verb("input", lambda c, x: c.world.alltoall(x, c.new()), lambda c: [
        c.of(rank) for rank in range(c.world.size) for _ in range(c.kind.count // c.world.size)]),
    "alltoall into": Verb("output", lambda c, x: c.world.alltoall(numpy.full(c.kind.count, 1, c.kind.dtype), x),
                          lambda c: [1.0] * c.kind.count),
    "send": Verb("input", received, lambda c: [c.of(c.before)] * c.kind.count),
    "recv": Verb("output", filled, lambda c: [c.of(c.before)] * c.kind.count),
}
DIVIDED = ("allgather into", "scatter", "reduce_scatter", "alltoall", "alltoall into")  # parts of the tensor
ALLOWED = {CHANGED: ("changed", "input", "output"), NUMBER: ("changed", "input"), INPUT: ("input",), REFUSED: ()}


@pytest.mark.parametrize("name", KINDS)
def test_every_verb_gives_the_right_value_or_an_error_before_anything_is_sent(world, agenda, unrelated, name):
    kind = KINDS[name]
    case = Case(world, agenda, kind, unrelated)
    for verb_name, verb in VERBS.items():
        if kind.count % world.size and verb_name in DIVIDED:
            continue
        if verb_name == "scatter" and world.rank != 1:
            x = None  # only the root gives a tensor
            if kind.outcome == REFUSED:
                continue
        else:
            x = kind.make(world.rank + 1)
        if verb.role in ALLOWED[kind.outcome]:
            made = verb.run(case, x)
            if verb.root is None or verb.root == world.rank:
                assert case.read(made) == verb.expected(case), verb_name
                if kind.outcome == NUMBER and verb.role == "changed":
                    assert type(made) is type(x), verb_name
                if kind.outcome == CHANGED and verb.role == "changed":
                    assert made is x, verb_name
        else:
            before = world.counters()["operations"]
            with pytest.raises((TypeError, ValueError), match=kind.why if kind.outcome != NUMBER else "has no memory"):
                verb.run(case, x)
            assert world.counters()["operations"] == before, verb_name
        if kind.outcome in (INPUT, NUMBER) and x is not None:  # it must be unchanged
            assert case.read(x) == [case.of(world.rank)] * kind.count, verb_name
        require_fences()
