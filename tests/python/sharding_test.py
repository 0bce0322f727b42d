"""The shares of lists and arrays."""
import array

import numpy
import pytest
import torch

import anello


def test_shares_are_disjoint_and_complete():
    shares = [anello.shard(range(12), rank, 4) for rank in range(4)]
    assert sorted(sum(shares, [])) == list(range(12)) and {len(one) for one in shares} == {3}


def test_what_does_not_divide_evenly_is_an_error_unless_said_otherwise():
    with pytest.raises(ValueError, match="10 items .* 4 ranks: 2 are left over"):
        anello.shard(range(10), 0, 4)
    assert [len(anello.shard(range(10), rank, 4, uneven="drop")) for rank in range(4)] == [2] * 4
    repeated = [anello.shard(range(10), rank, 4, uneven="repeat") for rank in range(4)]
    assert {len(one) for one in repeated} == {3} and set(sum(repeated, [])) == set(range(10))
    assert anello.shard([7], 3, 5, uneven="repeat") == [7]


@pytest.mark.parametrize("items, rank, size, uneven, why", [
    (range(3), 4, 4, "drop", "not one of 4"), (range(3), 0, 4, "drop", "too few"), ([], 0, 1, "repeat", "too few"),
    (range(3), 0, 1, "cut", "uneven must be")])
def test_wrong_shares_are_refused(items, rank, size, uneven, why):
    with pytest.raises(ValueError, match=why):
        anello.shard(items, rank, size, uneven=uneven)


@pytest.mark.parametrize("make", [numpy.arange, torch.arange])
def test_the_share_of_an_array_is_an_array_of_its_rows(make):
    rows = make(20).reshape(10, 2)
    share = anello.shard(rows, 1, 4, uneven="drop")
    assert type(share) is type(rows) and share.tolist() == [[2, 3], [10, 11]]
    share[0] = -1
    assert rows[1].tolist() == [-1, -1]
    repeated = anello.shard(rows, 3, 4, uneven="repeat")
    assert type(repeated) is type(rows) and repeated.tolist() == [[6, 7], [14, 15], rows[1].tolist()]
    with pytest.raises(ValueError, match="10 items .* 4 ranks: 2 are left over"):
        anello.shard(rows, 0, 4)


def test_the_share_of_any_other_sequence_is_a_list():
    assert anello.shard((4, 5, 6), 1, 2, uneven="repeat") == [5, 4]
    assert anello.shard(array.array("d", [4, 5, 6, 7]), 1, 2) == [5.0, 7.0]
