"""The samples of elastic trainings that PyTorch loads: shares without samples, and data that has no numbers."""
import collections

import pytest
import torch
from elastic_jobs import job

from anello.elastic import Batch, loader
from anello.elastic.batches import Plan
from anello.elastic.loader import _Shares, _without_rows

ONE_SAMPLE_A_STEP = """
import torch
import anello.elastic as elastic
data = [{"pixels": torch.full((2, 3), float(k)), "name": f"sample {k}"} for k in range(6)]
state = elastic.State(seen=0)
for world in elastic.worlds(state):
    with world:
        for batch, its in elastic.loader(data, global_batch=1, seed=3, epochs=2, state=state, num_workers=1):
            assert [f"sample {k}" for k in batch.samples] == its["name"]
            assert its["pixels"].shape == (len(batch.samples), 2, 3) and its["pixels"].dtype == torch.float32
            rows = world.allreduce(float(len(batch.samples)))
            state.seen += int(rows)
            state.commit()
print("seen", state.seen, "on", world.size)
"""


def test_an_empty_share_has_shapes_and_no_rows(tmp_path):
    with job(tmp_path, first=2) as made:
        for _ in range(2):
            made.script(ONE_SAMPLE_A_STEP)
        for process in made.processes:
            assert process.wait() == 0, process.err()
            assert "seen 12 on 2\n" in process.out()


def test_shares_go_on_where_the_commits_are():
    plan = Plan(10, 4, 1, 2)
    assert plan.steps == 6
    for rank in range(3):
        whole = list(_Shares(plan, 0, rank, 3))
        assert whole == [plan.share(step, rank, 3).samples or [0] for step in range(6)]
        assert list(_Shares(plan, 4, rank, 3)) == whole[4:] and len(_Shares(plan, 4, rank, 3)) == 2
    assert plan.share(2, 2, 3) == Batch([], 2, 0, 2)


def test_rows_are_removed_from_all_parts_of_the_data():
    Pair = collections.namedtuple("Pair", "image label")
    data = {"pair": Pair(torch.ones(1, 4), torch.ones(1, dtype=torch.int64)), "names": ["a"], "both": [torch.ones(1, 2)] * 2}
    left = _without_rows(data)
    assert left["pair"].image.shape == (0, 4) and left["pair"].label.dtype == torch.int64
    assert left["names"] == [] and [tuple(each.shape) for each in left["both"]] == [(0, 2)] * 2


def test_data_that_has_no_rows_is_an_error():
    for data in (torch.tensor(1.0), 7):
        with pytest.raises(ValueError, match="share of the batch is empty, and a (Tensor|int) cannot be cut to no rows"):
            _without_rows(data)


def test_a_data_set_needs_a_length():
    class Endless(torch.utils.data.IterableDataset):
        def __iter__(self):
            return iter(range(3))
    with pytest.raises(TypeError, match="a Endless has no length"):
        next(loader(Endless(), global_batch=1, seed=1, state=None))
