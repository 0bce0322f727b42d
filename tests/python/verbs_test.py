"""Every verb, on every rank of a world."""
import array

import numpy
import pytest
import torch

import anello


def each_rank(world):
    return range(world.size)


def test_the_world_knows_itself(world):
    assert world.members == list(each_rank(world)) and world.rank_of(world.rank) == world.rank
    assert world.rank_of(99) is None and world.local_size == world.size and world.node_count == 1
    assert repr(world) == f"<anello.World: rank={world.rank}, size={world.size}>"
    assert world.host(0) and world.layout.startswith(f"{world.size} 1 ") and world.failure() is None


@pytest.mark.parametrize("op, expected", [("sum", sum), ("max", max), ("min", min),
                                          ("average", lambda all: sum(all) / len(list(all)))])
def test_allreduce(world, op, expected):
    made = numpy.full(5, world.rank, "f8")
    assert world.allreduce(made, op) is made
    assert (made == expected(each_rank(world))).all()


def test_allreduce_out_of_place_with_factors(world):
    given, out = torch.ones(4), torch.empty(4)
    assert world.allreduce(given, out=out, prescale=2, postscale=0.5, wire="bf16") is out
    assert (out == world.size).all() and (given == 1).all()


def test_every_reduction_takes_factors_and_a_wire_type(world):
    given, out = numpy.full(2 * world.size, 1.001, "f4"), numpy.empty(2, "f4")
    sent = float(torch.tensor(2 * 1.001).bfloat16())
    world.reduce_scatter(given, out, prescale=2, postscale=0.5, wire="bf16")
    assert out == pytest.approx([world.size * sent / 2] * 2, rel=0.01) and out[0] != pytest.approx(world.size * 1.001)
    made = numpy.empty_like(given)
    world.reduce(given, 1, out=made, prescale=2, postscale=0.5, wire="bf16")
    assert world.rank != 1 or made == pytest.approx(out[0], rel=0.01) and made[0] != pytest.approx(world.size * 1.001)


def test_a_list_is_one_operation(world):
    some = [torch.ones(3), torch.ones(2, 2)]
    world.allreduce(some)
    assert all((each == world.size).all() for each in some)
    some = [numpy.full(2, world.rank), numpy.full(3, world.rank)]
    world.broadcast(some, 1)
    assert all((each == 1).all() for each in some)


def test_asynchronous_operations_hold_their_tensors(world):
    works = [world.allreduce_async(numpy.full(1000, k, "f4")) for k in range(100)]
    assert [work.wait()[999] for work in works] == [k * world.size for k in range(100)]
    for k in range(200):
        world.allreduce_async(numpy.full(1000, k, "f4"))  # the program keeps no handle
    world.barrier()


def test_allgather_of_different_sizes(world):
    mine = numpy.full((world.rank, 2), world.rank, "i4")
    expected = numpy.concatenate([numpy.full((r, 2), r, "i4") for r in each_rank(world)])
    assert (world.allgather(mine) == expected).all()
    assert world.allgather(torch.zeros(1)).shape == (world.size,)


def test_gather_and_scatter(world):
    gathered = world.gather(numpy.array([world.rank]), root=1)
    assert gathered is None if world.rank != 1 else list(gathered) == list(each_rank(world))
    out = numpy.empty(2)
    world.scatter(numpy.arange(2.0 * world.size) if world.rank == 0 else None, out)
    assert list(out) == [2 * world.rank, 2 * world.rank + 1]


def test_rows_that_differ_are_an_error_on_all_ranks_before_anything_is_sent(world):
    rows = 2 if world.rank == 0 else 3
    with pytest.raises(anello.Mismatch, match="a row has 3 elements on rank 0, but 2 on rank 1: only the first"):
        world.allgather(numpy.ones((rows, 5 - rows)))
    before = world.counters()["operations"]
    for wrong in (dict(name="a\0b"), dict(name=5)):
        with pytest.raises((TypeError, ValueError), match="name must"):
            world.allgather(numpy.ones(2), **wrong)
    with pytest.raises(TypeError, match="cannot make a new bytearray"):
        world.allgather(bytearray(2))
    assert world.counters()["operations"] == before
    assert world.allgather(numpy.ones((3, 0))).shape == (3 * world.size, 0)
    assert world.allgather_async(numpy.ones((3, 0))).wait().shape == (3 * world.size, 0)


def test_reduce_and_reduce_scatter(world):
    made = numpy.ones(2)
    world.reduce(made, 1)
    assert world.rank != 1 or (made == world.size).all()
    out = torch.empty(2)
    world.reduce_scatter(torch.arange(2.0 * world.size), out)
    assert out.tolist() == [world.size * 2 * world.rank, world.size * (2 * world.rank + 1)]


def test_alltoall(world):
    out = numpy.empty(world.size, "i8")
    world.alltoall(numpy.arange(world.size) + 10 * world.rank, out)
    assert list(out) == [10 * r + world.rank for r in each_rank(world)]
    sent = numpy.full(sum(range(world.size)), world.rank)  # r elements to rank r
    out = numpy.empty(world.rank * world.size, "i8")
    world.alltoall(sent, out, send_counts=list(each_rank(world)), recv_counts=[world.rank] * world.size)
    assert list(out) == [r for r in each_rank(world) for _ in range(world.rank)]


def test_counts_that_are_not_one_for_each_rank_are_named(world):
    given, out = numpy.ones(4), numpy.ones(4)
    for counts in ([4], [1] * (world.size + 1)):
        with pytest.raises(ValueError, match=f"send_counts must have one number for each of the {world.size} ranks"):
            world.alltoall(given, out, send_counts=counts, recv_counts=[1] * world.size)
    with pytest.raises(ValueError, match="recv_counts must not be negative"):
        world.alltoall(given, out, send_counts=[1] * world.size, recv_counts=[-1] * world.size)


def test_send_and_recv(world):
    after, before = (world.rank + 1) % world.size, (world.rank - 1) % world.size
    sending = world.send_async(numpy.array([world.rank]), after)
    assert world.recv(numpy.empty(1, "i8"), before)[0] == before
    sending.wait()


def test_probe_finds_what_was_sent(world):
    after, before = (world.rank + 1) % world.size, (world.rank - 1) % world.size
    world.send(numpy.array([world.rank]), after)
    while not world.probe(before):
        pass
    source, work = world.recv_arrived_async(numpy.empty(1, "i8"), [before])
    assert source == before and work.wait()[0] == before
    assert not world.probe(before) and world.recv_arrived_async(numpy.empty(1, "i8"), [before]) is None
    with pytest.raises(ValueError, match="own peer"):
        world.probe(world.rank)
    world.barrier()  # no rank sends before all have checked


def test_numbers_and_objects(world):
    assert world.sum(1) == world.size and world.average(world.rank) == (world.size - 1) / 2
    assert (world.min(world.rank), world.max(world.rank)) == (0, world.size - 1)
    assert world.allgather_object({"rank": world.rank}) == [{"rank": r} for r in each_rank(world)]
    assert world.broadcast_object("it" if world.rank == 1 else None, 1) == "it"


def test_buffers_need_no_library(world):
    made = array.array("f", [1.5] * 3)
    world.allreduce(made)
    assert list(made) == [1.5 * world.size] * 3


def test_groups(world):
    halves = world.split(world.rank % 2)
    assert halves.members == [r for r in each_rank(world) if r % 2 == world.rank % 2]
    if world.rank < 2:
        pair = world.group([1, 0])
        assert pair.sum(world.rank) == 1 and repr(pair) == f"<anello.Group: rank={1 - world.rank}, size=2>"


@pytest.mark.parametrize("wrong", [dict(op="summe"), dict(wire="f8"), dict(prescale=float("nan"))])
def test_a_wrong_argument_is_a_value_error(world, wrong):
    with pytest.raises(ValueError):
        world.allreduce(numpy.ones(1), **wrong)
    assert world.sum(1) == world.size


@pytest.mark.parametrize("wrong", [None, "2", bytearray(b"2"), 10 ** 400, numpy.ones(2), 1j, numpy.complex64(1)])
def test_a_factor_that_is_no_number_is_named(world, wrong):
    with pytest.raises(TypeError, match="postscale must be a number, not .{1,60}$"):
        world.allreduce(numpy.ones(1), postscale=wrong)
    with pytest.raises(TypeError, match="prescale must be a number, not "):
        world.reduce(numpy.ones(1), prescale=wrong)
    assert (world.allreduce(numpy.ones(1), prescale=numpy.float32(2)) == 2 * world.size).all()


def test_a_wait_has_a_limit(world):
    work = world.recv_async(numpy.empty(1), (world.rank + 1) % world.size)
    with pytest.raises(TimeoutError):
        work.wait(0.05)
    world.barrier()
    world.send(numpy.ones(1), (world.rank - 1) % world.size)
    work.wait()


def test_counters_and_phases(world, tmp_path):
    with world.phase("counting"):
        before = world.counters()["operations"]
        world.barrier()
        assert world.counters()["operations"] > before
    world.write_flight(tmp_path / "flight.json")
    assert (tmp_path / "flight.json").stat().st_size > 0


def test_a_world_ends_and_another_begins(world):
    again = anello.init(["ANELLO_SIZE=1", "ANELLO_RANK=0", "ANELLO_LOCAL_RANK=0", "ANELLO_LOCAL_SIZE=1",
                         "ANELLO_RENDEZVOUS="])
    assert again.size == 1
    again.finish()
    with pytest.raises(ValueError, match="has ended"):
        again.barrier()
