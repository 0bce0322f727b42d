"""Learning rates, checkpoints and callbacks; in one process."""
import pytest

import anello
from anello.callbacks import Callbacks, LearningRateWarmupCallback, MetricAverageCallback


class TwoRanks:
    rank, size = 0, 2


def test_steps_and_rates():
    assert anello.steps_per_epoch(1000, 10, 4) == 25
    with pytest.raises(ValueError, match="fewer than one batch"):
        anello.steps_per_epoch(39, 10, 4)
    with pytest.raises(ValueError, match="one batch of 0 "):
        anello.steps_per_epoch(39, 0, 4)
    assert anello.scaled_learning_rate(0.1, 512, 128) == pytest.approx(0.4)
    factor = anello.warm_up(3)
    assert [factor(step) for step in range(5)] == [0.25, 0.5, 0.75, 1, 1]


def test_a_file_is_replaced_as_a_whole(tmp_path):
    path = tmp_path / "checkpoint"
    path.write_bytes(b"old")
    with pytest.raises(KeyError):
        with anello.replacing(path) as file:
            file.write(b"half")
            raise KeyError
    assert path.read_bytes() == b"old"
    with anello.replacing(path) as file:
        file.write(b"new")
    assert path.read_bytes() == b"new" and [each.name for each in tmp_path.iterdir()] == ["checkpoint"]


def test_checkpoints_that_cannot_be_written_are_errors(tmp_path):
    world = anello.init()
    anello.save_on_rank_0(world, tmp_path / "a", lambda file: file.write(b"x"))
    assert (tmp_path / "a").read_bytes() == b"x"
    with pytest.raises(OSError, match="rank 0 could not write .*nowhere"):
        anello.save_on_rank_0(world, tmp_path / "nowhere" / "a", lambda file: file.write(b"x"))
    world.finish()


def test_the_rate_rises_step_by_step():
    rates = []
    warmup = Callbacks([LearningRateWarmupCallback(TwoRanks, rates.append, 0.8, steps_per_epoch=2, epochs=2)])
    for epoch in range(3):
        warmup.on_epoch_begin(epoch)
        for batch in range(2):
            warmup.on_batch_begin(batch)
    assert rates == pytest.approx([0.4, 0.5, 0.6, 0.7, 0.8])


def test_metrics_are_averaged():
    world = anello.init()
    logs = {"loss": 1.5, "accuracy": 0.5}
    Callbacks([MetricAverageCallback(world)]).on_epoch_end(0, logs)
    assert logs == {"loss": 1.5, "accuracy": 0.5}
    world.finish()
