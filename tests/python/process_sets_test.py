"""Process sets that the ranks add and remove in different ways."""
import os

import pytest
import torch

import anello.torch as hvd


@pytest.fixture(autouse=True)
def initialised(horovod):
    horovod.init()


def is_usable():
    made = hvd.add_process_set([0])
    return hvd.remove_process_set(made) and hvd.allreduce(torch.ones(1), op=hvd.Sum).item() == hvd.size()


def test_other_ranks_in_one_call_are_an_error_of_all():
    with pytest.raises(hvd.HorovodInternalError, match=r"rank 0 adds the process set \[0\], rank 1 adds the process set "
                                                       r"\[1\]; all ranks add and remove the same"):
        hvd.add_process_set([1] if hvd.rank() == 1 else [0])
    assert is_usable()


def test_to_add_and_to_remove_are_an_error_of_all():
    made = hvd.add_process_set([0])
    with pytest.raises(hvd.HorovodInternalError, match=r"removes the process set \[0\], rank 1 adds the process set \[1\]"):
        hvd.add_process_set([1]) if hvd.rank() == 1 else hvd.remove_process_set(made)
    assert hvd.remove_process_set(made) and is_usable()


@pytest.mark.parametrize("wrong", [[0, 99], ["a"], 7])
def test_a_set_that_one_rank_refuses_is_an_error_of_all(wrong):
    if hvd.rank() == 1:
        with pytest.raises((TypeError, ValueError)) as raised:
            hvd.add_process_set(wrong)
        assert "cannot take part" not in str(raised.value)
    else:
        with pytest.raises(hvd.HorovodInternalError, match="rank 1 cannot take part: ValueError"):
            hvd.add_process_set([0])
    assert is_usable()


def test_the_registered_sets_are_listed_where_scripts_for_horovod_look():
    listed = hvd.mpi_ops._basics._get_process_set_ids_and_ranks
    everyone = list(range(hvd.size()))
    assert listed() == {0: everyone}
    made = hvd.add_process_set([1])
    assert listed() == {0: everyone, made.process_set_id: [1]}
    first, number = made.process_set_id, made.number
    hvd.remove_process_set(made)
    assert listed() == {0: everyone} and made.process_set_id is None
    other = hvd.add_process_set([0])
    assert other.process_set_id == first and other.number != number, "the id is free again, the number is not"
    hvd.remove_process_set(other)
    hvd.shutdown()
    with pytest.raises(ValueError, match="not been initialized"):
        listed()
    hvd.init()


def test_an_id_set_by_hand_registers_no_set():
    made_up = hvd.ProcessSet([0])
    made_up.process_set_id = 10
    for use in (made_up.included, made_up.size, made_up.rank, lambda: made_up.agenda):
        with pytest.raises(ValueError, match="not registered"):
            use()
    assert hvd.add_process_set(made_up).process_set_id == 1 and made_up.size() == 1
    hvd.remove_process_set(made_up)


def test_to_begin_with_other_sets_is_an_error_of_all():
    hvd.shutdown()
    with pytest.raises(hvd.HorovodInternalError, match=r"rank 0 begins with the process sets \[\[0\]\], rank 1 begins with "
                                                       r"the process sets \[\]"):
        hvd.init(process_sets=[[0]] if os.environ["HOROVOD_RANK"] == "0" else None)
    assert not hvd.is_initialized()
    hvd.init(process_sets=[[0]])
    assert hvd.remove_process_set(hvd.ProcessSet([0])) is False and hvd.allreduce(1.0, op=hvd.Sum) == hvd.size()
