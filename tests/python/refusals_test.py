"""Calls that are refused in Python, on one rank or on all, and the errors of the other ranks."""
import re

import numpy
import pytest

import anello
from anello.agenda import Agenda

READ_ONLY = numpy.ones(2)
READ_ONLY.flags.writeable = False


def calls(agenda, one):
    """For each verb: a right call, a wrong call, and the reason why it is wrong."""
    return {
        "allreduce": (agenda.allreduce, [one], [READ_ONLY], "ValueError: this numpy.ndarray is read-only"),
        "allgather": (agenda.allgather, [one], one, "TypeError: named operations take a list of tensors"),
        "broadcast": (lambda given, name: agenda.broadcast(given, 0, name=name), [one], ["1"],
                      "TypeError: str is not a tensor"),
        "alltoall": (agenda.alltoall, numpy.ones(agenda.group.size), numpy.ones((4, 4))[:, 1], "ValueError: "),
        "reduce_scatter": (agenda.reduce_scatter, [one], [object()], "TypeError: object is not a tensor"),
    }


def refused(call, given, name):
    with pytest.raises((TypeError, ValueError)) as raised:
        call(given, name=name)
    return f"{type(raised.value).__name__}: {raised.value}"


@pytest.mark.parametrize("name", [None, "named"])
@pytest.mark.parametrize("verb", ["allreduce", "allgather", "broadcast", "alltoall", "reduce_scatter"])
def test_a_named_operation_that_one_rank_refuses_fails_on_the_others(world, agenda, verb, name):
    call, right, wrong, reason = calls(agenda, numpy.ones(3))[verb]
    if world.rank == 1:
        assert reason in refused(call, wrong, name)
    else:
        with pytest.raises(anello.Mismatch, match=f"rank 1 cannot take part: {re.escape(reason)}") as raised:
            call(right, name=name).wait()
        assert raised.value.rank == 1
    assert world.failure() is None
    call(right, name=name).wait()  # ranks stay in step without a name too


def test_a_named_operation_that_all_ranks_refuse_raises_on_each_its_own_error(world, agenda):
    for name in (None, "by all"):
        given = [READ_ONLY, "a text", object()][world.rank % 3]
        assert ["read-only", "str", "object"][world.rank % 3] in refused(agenda.allreduce, [given], name)
        assert agenda.allreduce([float(world.rank)], name=name).wait() == [sum(range(world.size))]


def test_work_that_is_under_way_is_not_disturbed(world, agenda):
    started = [agenda.allreduce([float(k)], name=f"under way {k}") for k in range(5)]
    if world.rank == 1:
        refused(agenda.allreduce, [READ_ONLY], "odd")
    else:
        with pytest.raises(anello.Mismatch, match="rank 1 cannot take part: ValueError: .*read-only"):
            agenda.allreduce([numpy.ones(2)], name="odd").wait()
    assert [each.wait() for each in started] == [[k * world.size] for k in range(5)]


def test_a_group_of_some_ranks(world):
    if world.rank > 1:
        return
    group = world.group([0, 1])
    its = Agenda(group)
    if world.rank == 1:
        refused(its.allreduce, [READ_ONLY], "of a group")
    else:
        with pytest.raises(anello.Mismatch, match="rank 1 cannot take part: ValueError: .*read-only"):
            its.allreduce([numpy.ones(2)], name="of a group").wait()
    its.barrier(waits=True).wait()
    group.barrier()
    its.free()


def test_a_collective_that_a_rank_refuses_may_be_called_again(world):
    """The others wait for it."""
    some = numpy.ones(2)
    if world.rank == 1:
        for wrong in (lambda: world.allreduce(READ_ONLY), lambda: world.allreduce("1"), lambda: world.allreduce(some, 3),
                      lambda: world.broadcast_object(1, root=99), lambda: world.allgather(object())):
            with pytest.raises((TypeError, ValueError)):
                wrong()
    world.allreduce(some)
    assert some.tolist() == [world.size] * 2


def test_a_collective_that_all_ranks_refuse_leaves_the_world_as_it_was(world):
    before = world.counters()["operations"]
    for verb in (world.allreduce, world.broadcast, world.reduce):
        with pytest.raises(ValueError, match="read-only"):
            verb(READ_ONLY)
    assert world.failure() is None and world.counters()["operations"] == before
    assert world.allreduce(1.0) == world.size


def test_in_a_world_that_has_ended_the_error_is_the_callers():
    ended = anello.init()
    agenda = Agenda(ended)
    ended.barrier()
    agenda.free()
    ended.finish()
    for call in (lambda: ended.allreduce(1.0), lambda: ended.send(1.0, 0), lambda: agenda.allreduce([1.0])):
        with pytest.raises(ValueError, match="has ended"):
            call()


def test_a_metric_that_is_no_number_leaves_the_ranks_in_step(world):
    if world.rank == 1:
        with pytest.raises(ValueError, match="could not convert"):
            anello.average_metrics(world, {"loss": "high"})
    assert anello.average_metrics(world, {"loss": float(world.rank)}) == {"loss": (world.size - 1) / 2}
