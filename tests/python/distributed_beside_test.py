"""Groups of "anello" beside a default group of another backend."""
import os
import tempfile

import pytest
import torch
import torch.distributed as dist

import anello.torch.distributed  # registers the backend


@pytest.fixture(scope="module", autouse=True)
def default_group():
    store = os.path.join(tempfile.gettempdir(), f"anello-{os.environ['ANELLO_JOB']}-beside")
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=int(os.environ["RANK"]),
                            world_size=int(os.environ["WORLD_SIZE"]))
    yield
    anello.torch.distributed._end(None)
    dist.destroy_process_group()


def sum_of_ranks(group):
    made = torch.full((3,), float(dist.get_rank()))
    dist.all_reduce(made, group=group)
    return made[0].item()


def test_a_group_of_some_ranks():
    ranks = [0, dist.get_world_size() - 1]
    group = dist.new_group(ranks, backend="anello")
    if dist.get_rank() in ranks:
        assert sum_of_ranks(group) == sum(ranks)
    dist.barrier()


@pytest.mark.skipif(os.environ["WORLD_SIZE"] == "2", reason="it is a world of one rank then")
def test_a_group_of_the_last_ranks_is_not_blamed_for_its_local_ranks(capfd):
    ranks = list(range(1, dist.get_world_size()))
    group = dist.new_group(ranks, backend="anello")
    if dist.get_rank() in ranks:
        assert sum_of_ranks(group) == sum(ranks)
    dist.barrier()
    assert "ANELLO_LOCAL_RANK" not in capfd.readouterr().err


def test_groups_that_overlap_in_a_circle():
    size = dist.get_world_size()
    pairs = [sorted({each, (each + 1) % size}) for each in range(size)]
    groups = [dist.new_group(pair, backend="anello") for pair in pairs]
    for pair, group in zip(pairs, groups):
        if dist.get_rank() in pair:
            assert sum_of_ranks(group) == sum(pair)


def test_a_group_of_each_rank_alone_and_one_of_all():
    groups = [dist.new_group([each], backend="anello") for each in range(dist.get_world_size())]
    everyone = dist.new_group(backend="anello")
    assert sum_of_ranks(groups[dist.get_rank()]) == dist.get_rank()
    assert sum_of_ranks(everyone) == sum(range(dist.get_world_size()))
