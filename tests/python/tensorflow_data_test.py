"""The shares of a tf.data.Dataset: all ranks have equally long shares, for every length of the dataset."""
import subprocess
import sys

import pytest
import tensorflow as tf

import anello


def shares(dataset, size, **how):
    return [list(anello.shard(dataset, rank, size, **how).as_numpy_iterator()) for rank in range(size)]


def counted(length):
    return tf.data.Dataset.range(length)


def uncounted(length):
    """A dataset of unknown length."""
    return counted(length).filter(lambda item: item >= 0)


def test_every_item_is_in_one_share():
    assert shares(counted(6), 3) == [[0, 3], [1, 4], [2, 5]]


def test_what_is_left_over_is_an_error_or_dropped_or_completed():
    with pytest.raises(ValueError, match="10 items .* 4 ranks: 2 are left over"):
        anello.shard(counted(10), 0, 4)
    assert shares(counted(10), 4, uneven="drop") == [[0, 4], [1, 5], [2, 6], [3, 7]]
    assert shares(counted(10), 4, uneven="repeat") == [[0, 4, 8], [1, 5, 9], [2, 6, 0], [3, 7, 1]]
    assert shares(counted(1), 3, uneven="repeat") == [[0], [0], [0]]
    with pytest.raises(ValueError, match="3 items are too few for 4 ranks"):
        anello.shard(counted(3), 0, 4, uneven="drop")


def test_a_share_has_a_length_that_keras_can_ask_for():
    assert len(anello.shard(counted(10), 3, 4, uneven="drop")) == 2
    assert len(anello.shard(counted(10), 3, 4, uneven="repeat")) == 3


def test_without_a_length_only_complete_rounds_are_given_out():
    for uneven in "error", "repeat":
        with pytest.raises(ValueError, match=r"uneven='drop'.*assert_cardinality\(length\)"):
            anello.shard(uncounted(10), 0, 4, uneven=uneven)
    assert shares(uncounted(10), 4, uneven="drop") == [[0, 4], [1, 5], [2, 6], [3, 7]]
    assert shares(uncounted(8), 4, uneven="drop") == [[0, 4], [1, 5], [2, 6], [3, 7]]
    assert shares(uncounted(3), 4, uneven="drop") == [[]] * 4
    stated = uncounted(10).apply(tf.data.experimental.assert_cardinality(10))
    assert shares(stated, 4, uneven="repeat") == shares(counted(10), 4, uneven="repeat")


@pytest.mark.parametrize("structure", [lambda item: (item, -item), lambda item: (item,),
                                       lambda item: {"x": item, "y": (item, -item)},
                                       lambda item: tf.ragged.range(item)], ids=["tuple", "one", "dict", "ragged"])
def test_items_keep_their_structure(structure):
    items = uncounted(5).map(structure)
    share = anello.shard(items, 1, 2, uneven="drop")
    assert share.element_spec == items.element_spec
    every = [tf.nest.map_structure(lambda part: part.numpy().tolist(), item) for item in items]
    assert [tf.nest.map_structure(lambda part: part.numpy().tolist(), item) for item in share] == every[1:4:2]


def test_a_dataset_without_end_has_shares_without_end():
    share = anello.shard(counted(4).repeat(), 1, 3)
    assert list(share.take(4).as_numpy_iterator()) == [1, 0, 3, 2]


def test_a_tensor_is_an_array():
    assert anello.shard(tf.range(10), 1, 4, uneven="drop").numpy().tolist() == [1, 5]


def test_anello_alone_imports_neither_tensorflow_nor_numpy():
    found = "import anello, sys; print({'tensorflow', 'keras', 'numpy', 'torch'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", found], capture_output=True, text=True).stdout == "set()\n"
