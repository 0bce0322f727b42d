"""shard(): the share of the data that a rank trains on. It needs neither numpy nor a framework."""
from __future__ import annotations

from typing import Any

_INFINITE, _UNKNOWN = -1, -2  # cardinalities of tf.data


def shard(items: Any, rank: int, size: int, *, uneven: str = "error") -> Any:
    """This rank's share of some items: every size-th one, beginning with item `rank`. Sends nothing.

    All ranks must get the same number of items, because a rank with more steps would wait for the others forever. All
    ranks must have the same items in the same order: shuffle a share, or shuffle with the same seed on all ranks.

    Args:
        items: a sequence, for example of files; the share of a sequence is a list. Or an array, whose rows are the
            items; its share is an array, and is not a copy unless rows are repeated. Shard arrays that belong together
            one by one. Or a tf.data.Dataset; its share is a dataset too. Shard a dataset before you call its batch(),
            because the last batch may be smaller.
        uneven: what to do with items that do not divide evenly: "error", "drop" (leave the last ones out), or
            "repeat" (begin again from the first ones). A dataset of unknown length accepts only "drop".
    """
    if not 0 <= rank < size:
        raise ValueError(f"rank {rank} is not one of {size} ranks")
    if uneven not in ("error", "drop", "repeat"):
        raise ValueError(f"uneven must be 'error', 'drop' or 'repeat', not {uneven!r}")
    if hasattr(items, "cardinality"):
        return _of_dataset(items, rank, size, uneven)
    count = len(items)
    used = _used(count, size, uneven)
    if not hasattr(items, "__array__"):
        return [items[k % count] for k in range(rank, used, size)]
    if used <= count:
        return items[rank:used:size]
    import numpy
    return items[numpy.arange(rank, used, size) % count]


def _used(count: int, size: int, uneven: str) -> int:
    """Returns the number of items to divide between the ranks.

    If the result exceeds the number of items, the first items are used again.
    """
    left = count % size
    if left and uneven == "error":
        raise ValueError(f"{count} items cannot be divided evenly between {size} ranks: {left} are left over. "
                         "Give uneven='drop' or 'repeat', or another number of items")
    used = count + size - left if left and uneven == "repeat" else count - left
    if used == 0:
        raise ValueError(f"{count} items are too few for {size} ranks")
    return used


def _of_dataset(items: Any, rank: int, size: int, uneven: str) -> Any:
    count = int(items.cardinality())
    if count == _INFINITE:
        return items.shard(size, rank)
    if count == _UNKNOWN:
        if uneven != "drop":
            raise ValueError("this dataset's length is not known until it has been read: give uneven='drop', or state "
                             "it with .apply(tf.data.experimental.assert_cardinality(length))")
        return _of_complete_groups(items, rank, size)
    used = _used(count, size, uneven)
    return (items.take(used) if used <= count else items.repeat().take(used)).shard(size, rank)


def _of_complete_groups(items: Any, rank: int, size: int) -> Any:
    """Takes one item of every group of `size` items; an incomplete last group is left out."""
    gives_tuples = type(items.element_spec) is tuple  # the parts of a tuple are passed as separate arguments

    def own(*parts: Any) -> Any:
        return items.zip(parts if gives_tuples else parts[0]).skip(rank).take(1)

    return items.window(size, drop_remainder=True).flat_map(own)
