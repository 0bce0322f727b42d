"""Arguments of a wrong type or out of range are named, before anything is sent; and numbers instead of tensors."""
import enum
import os
import subprocess
import sys

import numpy
import pytest
import torch


TYPES = ["0", 1.5, None, [0], b"0", numpy.ones(2, "i8"), 1j]
RANGE = [-1, 99, 2**32, 2**31, -2**63, 10**30]


def calls(world, agenda, one):
    """Each verb that takes the number of a rank, with the name of that argument."""
    return {
        "reduce": ("root", lambda v: world.reduce(one, v)),
        "broadcast": ("root", lambda v: world.broadcast(one, v)),
        "broadcast list": ("root", lambda v: world.broadcast([one], v)),
        "broadcast_object": ("root", lambda v: world.broadcast_object(1, v)),
        "gather": ("root", lambda v: world.gather(one, None, v)),
        "scatter": ("root", lambda v: world.scatter(one, one, v)),
        "send": ("to", lambda v: world.send(one, v)),
        "recv": ("source", lambda v: world.recv(one, v)),
        "probe": ("source", world.probe),
        "recv_arrived": ("source", lambda v: world.recv_arrived_async(one, [v])),
        "group": ("members: rank", lambda v: world.group([world.rank, v])),
        "host": ("rank", world.host),
        "broadcast named": ("root", lambda v: agenda.broadcast([one], v)),
    }


def test_ranks_of_a_wrong_type_or_out_of_range(world, agenda):
    one = numpy.ones(1)
    before = world.counters()["operations"]
    for which, call in calls(world, agenda, one).values():
        for value in TYPES:
            with pytest.raises(TypeError, match=f"^{which} must be the number of a rank, from 0 to {world.size - 1}"):
                call(value)
        for value in RANGE:
            with pytest.raises(ValueError, match=f"^{which} .*is not one of {world.size} ranks"):
                call(value)
    assert world.counters()["operations"] == before and one[0] == 1


def test_ranks_of_any_library(world):
    for root in (1, True, numpy.int64(1), numpy.uint8(1), torch.tensor(1), numpy.array(1)):
        assert world.broadcast(float(world.rank), root) == 1


def test_other_integers(world):
    for value in TYPES:
        for which, call in [("colour", lambda: world.split(value)), ("key", lambda: world.split(0, value)),
                            ("world_rank", lambda: world.rank_of(value)),
                            ("consistency_token", lambda: world.send(numpy.ones(1), 0, consistency_token=value))]:
            with pytest.raises(TypeError, match=f"{which} must be an integer, not"):
                call()
    for value in (2**31, -2**31 - 1, 10**30):
        for which, call in [("colour", lambda: world.split(value)), ("key", lambda: world.split(0, value))]:
            with pytest.raises(ValueError, match=f"{which} must be from -2147483648 to 2147483647"):
                call()
    with pytest.raises(ValueError, match="consistency_token must be from 0 to 18446744073709551615"):
        world.send(numpy.ones(1), 0, consistency_token=-1)


def test_lists_of_ranks_and_counts(world, agenda):
    given, out = numpy.ones(world.size), numpy.ones(world.size)
    for value in (5, "00", None, b"00"):
        with pytest.raises(TypeError, match="members must be a list of integers, not"):
            world.group(value)
    for value in (5, "11", b"11"):
        for which, call in [("counts", lambda: world.allgather(given, out, counts=value)),
                            ("counts", lambda: world.allgather(given, counts=value)),
                            ("counts", lambda: world.reduce_scatter(given, out, counts=value)),
                            ("send_counts", lambda: world.alltoall(given, out, send_counts=value)),
                            ("splits", lambda: agenda.alltoall(given, value))]:
            with pytest.raises(TypeError, match=f"^{which} must be a list of integers, not"):
                call()
    for value, error, why in [([1.0] * world.size, TypeError, "must be integers, not 1.0"),
                              (["1"] * world.size, TypeError, "must be integers, not '1'"),
                              ([-1] * world.size, ValueError, "must not be negative"),
                              ([2**64] * world.size, ValueError, "must be less than")]:
        for which, call in [("counts", lambda: world.allgather(given, out, counts=value)),
                            ("counts", lambda: world.gather(given, out, world.rank, counts=value)),
                            ("recv_counts", lambda: world.alltoall(given, out, recv_counts=value)),
                            ("splits", lambda: agenda.alltoall(given, value))]:
            with pytest.raises(error, match=f"^{which} {why}"):
                call()
    for counts in (numpy.ones(world.size, "i4"), torch.ones(world.size, dtype=torch.int64), (1,) * world.size):
        assert world.allgather(numpy.ones(1), counts=counts).tolist() == [1] * world.size


def test_names_and_options(world, agenda):
    one = numpy.ones(1)
    for name, error, why in [(5, TypeError, "name must be a string, not 5"), (b"a", TypeError, "name must be a string"),
                             ("a\0b", ValueError, "name must not contain a zero byte")]:
        for call in (lambda: world.allreduce(one, name=name), lambda: world.barrier(name=name),
                     lambda: agenda.allreduce([one], name=name), lambda: agenda.barrier(name=name)):
            with pytest.raises(error, match=why):
                call()
    for value in ([], {}, 3, None, one):
        with pytest.raises(ValueError, match="op must be one of sum, average"):
            world.allreduce(one, value)
    for value in ([], {}, 3, one):
        with pytest.raises(ValueError, match="wire must be 'f16', 'bf16' or None"):
            world.allreduce(one, wire=value)
    with pytest.raises(TypeError, match=r"take a list of tensors, not numpy.ndarray: write \[tensor\]"):
        agenda.allreduce(one)
    with pytest.raises(ValueError, match="there are 1 inputs, but 2 outputs"):
        agenda.allreduce([one], [one, one])
    for value in (None, "1", one[:0], 1j, numpy.ma.masked):
        with pytest.raises(TypeError, match="value must be a number"):
            world.average(value)


def test_alltoall_in_place_is_refused_by_name(world):
    some = numpy.ones(world.size)
    with pytest.raises(ValueError, match="there is no alltoall in place: give an output that shares no memory"):
        world.alltoall(some, some)
    with pytest.raises(ValueError, match="there is no alltoall in place"):
        world.alltoall(some, some, send_counts=[1] * world.size, recv_counts=[1] * world.size)


def test_outputs_that_overlap_the_input(world):
    some = numpy.arange(10.0)
    with pytest.raises(ValueError, match="overlap, but are not the same memory"):
        world.allreduce(some[:8], out=some[1:9])
    assert some.tolist() == list(range(10))


class Colour(enum.IntEnum):
    RED = 3


def test_numbers(world, agenda):
    n, rank = world.size, world.rank
    assert world.allreduce(2.5) == 2.5 * n and world.allreduce(2**60 // n) == 2**60 // n * n
    assert world.allreduce(Colour.RED) == 3 * n and world.allreduce(rank, "max") == n - 1
    averaged = world.allreduce(rank, "average")
    assert type(averaged) is float and averaged == (n - 1) / 2  # not truncated
    assert world.allreduce(rank == 0) is True and world.allreduce(rank == 0, "min") is False
    assert world.allreduce(rank == 0, "average") == pytest.approx(1 / n)
    summed = world.allreduce(numpy.arange(3.0).mean(), out=numpy.zeros(1))
    assert type(summed) is numpy.ndarray and summed[0] == n
    assert world.reduce(1.0, 1) == (n if rank == 1 else None)
    assert world.broadcast(numpy.float64(7.0 if rank == 0 else 0.0)) == 7
    assert world.allgather(float(rank)) == [float(r) for r in range(n)] == world.allgather_async(float(rank)).wait()
    gathered = world.allgather(numpy.float32(rank))
    assert gathered.dtype == numpy.float32 and gathered.tolist() == list(range(n))
    assert world.gather(rank, root=1) == (list(range(n)) if rank == 1 else None)
    mixed = (numpy.ones(2), 3.0, numpy.float64(4))
    made = world.allreduce(mixed)
    assert made[0] is mixed[0] and made[0][1] == n and made[1:] == [3.0 * n, 4.0 * n] and mixed[1:] == (3.0, 4.0)
    assert type(made[2]) is numpy.float64
    assert agenda.allreduce([1, 2.0, mixed[0]]).wait()[:2] == [n, 2.0 * n]
    assert agenda.allgather([rank, numpy.int8(rank)]).wait()[0] == list(range(n))
    assert world.sum(rank) == n * (n - 1) / 2 and world.min(numpy.float32(rank)) == 0


def test_numbers_that_do_not_fit(world, agenda):
    for call in (lambda: world.allreduce(2**63), lambda: world.allreduce(-2**63 - 1, "max"),
                 lambda: world.allreduce(2**62), lambda: world.allreduce([-2**62]), lambda: world.reduce(2**62, 0),
                 lambda: world.allreduce(2**40, "product"), lambda: agenda.allreduce([2**62]),
                 lambda: world.broadcast(10**30), lambda: world.sum(2**53 + 1),
                 lambda: world.sum(numpy.int64(2**53 + 1)), lambda: world.max(numpy.uint64(2**64 - 1))):
        with pytest.raises(OverflowError):
            call()
    assert world.allreduce(2**63 - 1, "max") == 2**63 - 1 and world.broadcast(-2**63) == -2**63
    assert world.allreduce(numpy.int64(2**62), "max") == 2**62


def test_a_list_of_scalars_in_flight_writes_nothing_else(world):
    works = [world.allreduce_async(numpy.float64(k)) for k in range(100)]
    others = [numpy.full(1, 0.5) for _ in range(1000)]
    assert [work.wait() for work in works] == [k * world.size for k in range(100)]
    assert all(each[0] == 0.5 for each in others)


def test_buffers_keep_their_size_while_an_operation_is_under_way(world):
    for made, grow in [(bytearray(8), lambda made: made.extend(b"1")),
                       (memoryview(bytearray(8)), lambda made: made.obj.extend(b"1"))]:
        work = world.recv_async(made, (world.rank + 1) % world.size)
        with pytest.raises(BufferError):
            grow(made)
        if isinstance(made, memoryview):
            made.release()  # the operation holds the memory itself
        world.send(bytes(range(8)), (world.rank - 1) % world.size)
        work.wait()


def test_a_tensor_may_get_other_memory_while_an_operation_is_under_way(world):
    made = torch.zeros(1000)
    old = made.numpy()
    work = world.recv_async(made, (world.rank + 1) % world.size)
    made.data = torch.ones(1)
    world.send(numpy.full(1000, 3.0, "f4"), (world.rank - 1) % world.size)
    work.wait()
    assert (old == 3).all() and made.tolist() == [1]


SCRIPT = """
import anello, sys
world = anello.init()
{}
"""


@pytest.mark.parametrize("line, why, hidden", [
    ("print(world.rank())", "TypeError: 'int' object is not callable: rank is an attribute in anello, so write .rank "
     "without ()", "anello/"),
    ("world.members()", "members is an attribute in anello", "anello/"),
    ("world.broadcast(bytearray(1), root='0')", "TypeError: root must be the number of a rank, from 0 to 0, not '0'",
     "ctypes"),
    ("world.allreduce(2**64)", "OverflowError: an int is sent as 64 bits", "scalars.py"),
])
def test_what_a_script_prints(line, why, hidden, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(line))
    alone = {key: value for key, value in os.environ.items() if not key.startswith(("ANELLO_R", "ANELLO_S"))}
    ran = subprocess.run([sys.executable, str(script)], capture_output=True, text=True,
                         env={**alone, "ANELLO_SIZE": "1", "ANELLO_RANK": "0", "ANELLO_LOCAL_RANK": "0",
                              "ANELLO_LOCAL_SIZE": "1", "ANELLO_RENDEZVOUS": ""})
    assert ran.returncode == 1 and why in ran.stderr.rstrip().splitlines()[-1]
    assert hidden not in ran.stderr and line in ran.stderr
