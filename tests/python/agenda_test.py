"""Named operations: any order, any thread, errors that leave the world alive; on every rank of a world."""
import array
import threading

import numpy
import pytest

import anello


def test_ranks_submit_in_any_order(world, agenda):
    names = [f"tensor {k}" for k in range(20)]
    order = names if world.rank % 2 == 0 else list(reversed(names))
    started = {name: agenda.allreduce([numpy.full(5, float(name.split()[1]))], name=name) for name in order}
    for name in names:
        assert (started[name].wait()[0] == float(name.split()[1]) * world.size).all()


def test_threads_submit(world, agenda):
    results = {}

    def submit(k):
        results[k] = agenda.allreduce([numpy.full(3, k)], name=f"thread {k}").wait()[0][0]

    threads = [threading.Thread(target=submit, args=(k,)) for k in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert results == {k: k * world.size for k in range(8)}


def test_outputs_are_made_by_the_operation(world, agenda):
    mine = numpy.full((world.rank + 1, 2), world.rank)
    gathered, empty = agenda.allgather([mine, numpy.zeros((0, 3))]).wait()
    assert gathered.tolist() == [[r, r] for r in range(world.size) for _ in range(r + 1)] and empty.shape == (0, 3)
    out, rows = agenda.alltoall(numpy.full(world.size, world.rank), [1] * world.size).wait()
    assert out.tolist() == list(range(world.size)) and rows == (1,) * world.size
    part = agenda.reduce_scatter([numpy.ones((world.size + 1, 2))]).wait()[0]
    assert part.shape == (2 if world.rank == 0 else 1, 2) and (part == world.size).all()


def test_numbers_are_scattered_as_they_are_reduced(world, agenda):
    for op, expected in (("average", (world.size - 1) / 2), ("sum", sum(range(world.size)))):
        assert agenda.reduce_scatter([world.rank], op).wait() == [[expected] if world.rank == 0 else []]
    made = agenda.reduce_scatter([numpy.int8(world.rank)]).wait()[0]
    assert made.dtype == numpy.int8 and made.tolist() == [sum(range(world.size))] * (world.rank == 0)


@pytest.mark.parametrize("verb", ["allgather", "alltoall", "reduce_scatter"])
def test_a_result_that_cannot_be_made_is_refused_before_anything_is_sent(world, agenda, verb):
    before = world.counters()["operations"]
    for given in (array.array("f", [1] * world.size), memoryview(bytearray(world.size)), bytes(world.size)):
        with pytest.raises(TypeError, match=f"cannot make a new .*{type(given).__name__} for the result: give a numpy"):
            getattr(agenda, verb)(given if verb == "alltoall" else [numpy.ones(world.size), given])
    assert world.counters()["operations"] == before


def test_a_list_is_one_operation_of_several_types(world, agenda):
    some = [numpy.ones(3, "f4"), numpy.ones((2, 2), "i8")]
    agenda.allreduce(some).wait()
    assert (some[0] == world.size).all() and (some[1] == world.size).all()


def test_integers_are_scaled_and_truncated(world, agenda):
    given = [numpy.array([3, -3])]
    agenda.allreduce(given, prescale=0.5, waits=True).wait()
    assert given[0].tolist() == [world.size, -world.size]


def test_a_mismatch_names_both_ranks_and_the_world_goes_on(world, agenda):
    with pytest.raises(anello.Mismatch, match=r"'different'.*\(?[34]\)?.*\(?[34]\)?"):
        agenda.allreduce([numpy.ones(4 if world.rank == 0 else 3)], name="different").wait()
    assert world.failure() is None
    assert agenda.allreduce([numpy.ones(1)], name="different").wait()[0][0] == world.size


def test_a_name_is_taken_until_its_end_was_seen(world, agenda):
    first = agenda.barrier(name="taken")
    with pytest.raises(anello.InvalidArgument, match="taken"):
        agenda.barrier(name="taken")
    first.wait()
    agenda.barrier(name="taken", waits=True).wait()


def test_join(world, agenda):
    value = numpy.ones(2)
    if world.rank > 0:
        agenda.allreduce([value], op="average", name="joined").wait()
        assert value == pytest.approx((world.size - 1) / world.size)
        with pytest.raises(anello.Mismatch):
            agenda.allgather([value]).wait()
    last = agenda.join().wait()
    assert last > 0 and set(world.allgather_object(last)) == {last}
    agenda.allreduce([value]).wait()


def test_a_dropped_handle_keeps_its_tensors(world, agenda):
    for k in range(200):
        agenda.allreduce([numpy.full(1000, float(k))], name=f"dropped {k}")
    agenda.barrier(waits=True).wait()
    world.barrier()


def test_what_an_operation_waits_for_can_be_told(world, agenda):
    if world.rank == 0:
        waiting = agenda.barrier(name="slow")
        assert "slow" in waiting.describe()
        world.barrier()
        waiting.wait()
    else:
        world.barrier()
        agenda.barrier(name="slow").wait()
