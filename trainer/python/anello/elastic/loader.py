"""Loads the data of each step's samples with PyTorch."""
from __future__ import annotations

from typing import Any, Iterator, List, Tuple

from .batches import Batch, Plan, batches
from .state import State


def loader(dataset: Any, *, global_batch: int, seed: int, state: State, epochs: int = 1, name: str = "batches",
           **options: Any) -> Iterator[Tuple[Batch, Any]]:
    """Does the same as `batches()`, and also loads each share: yields pairs of a `Batch` and its data.

        for batch, (images, labels) in anello.elastic.loader(data, global_batch=256, seed=1, state=state, num_workers=4):
            ...
            state.commit(optimizer.step)

    The processes of the loader load the next shares while the body of the loop runs, and start anew in each world. If a
    share is empty, its tensors and arrays have their usual shapes, but no rows.

    Args:
        dataset: an object with a length, which returns a sample for each number.
        options: for `torch.utils.data.DataLoader`, except those that choose samples: `batch_size`, `shuffle`,
            `sampler`, `batch_sampler`, `drop_last`.

    Raises:
        TypeError: if the data set has no length.
        ValueError: if a share is empty, and `collate_fn` returns something that cannot be cut to no rows.
    """
    from torch.utils.data import DataLoader
    if not hasattr(dataset, "__len__"):
        raise TypeError(f"a {type(dataset).__name__} has no length, so its samples have no numbers: ranks that come and "
                        "go could not divide them")
    plan = Plan(len(dataset), global_batch, seed, epochs)
    shares = _Shares(plan, state._position(name), state.world.rank, state.world.size)
    loaded = iter(DataLoader(dataset, batch_sampler=shares, **options))
    for batch in batches(dataset, global_batch=global_batch, seed=seed, state=state, epochs=epochs, name=name):
        data = next(loaded)
        yield batch, data if batch.samples else _without_rows(data)


class _Shares:
    """The numbers of a rank's samples in each step that is left. If a share is empty, the loader gets one sample in its
    place, which shows the shapes of the data."""

    def __init__(self, plan: Plan, first: int, rank: int, size: int) -> None:
        self._plan, self._first, self._rank, self._size = plan, first, rank, size

    def __len__(self) -> int:
        return self._plan.steps - self._first

    def __iter__(self) -> Iterator[List[int]]:
        for position in range(self._first, self._plan.steps):
            yield self._plan.share(position, self._rank, self._size).samples or [0]


def _without_rows(data: Any) -> Any:
    if isinstance(data, dict):
        return {name: _without_rows(each) for name, each in data.items()}
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*map(_without_rows, data))
    if isinstance(data, (list, tuple)):
        rows = all(isinstance(each, (str, bytes)) for each in data)  # texts and bytes cannot be stacked
        return type(data)() if rows else type(data)(map(_without_rows, data))
    if hasattr(data, "shape") and len(data.shape) > 0:
        return data[:0]
    raise ValueError(f"this rank's share of the batch is empty, and a {type(data).__name__} cannot be cut to no rows: "
                     "use a global batch with at least one sample for each rank, or another collate_fn")
