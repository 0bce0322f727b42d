"""Elastic states whose values raise on one rank only."""
import pytest
import torch

import anello
import anello.torch as hvd


@pytest.fixture(autouse=True)
def initialised(horovod):
    horovod.init()


class Value:
    """Raises in one of its methods while `fails` is that method's name."""

    fails = None

    def __init__(self, number):
        self.number = number

    def _begin(self, method):
        if self.fails == method:
            raise KeyError(f"no {method} today")

    def state_dict(self):
        self._begin("state_dict")
        return Copied(self.number, self.fails)

    def load_state_dict(self, state):
        self._begin("load_state_dict")
        self.number = state.number


class Copied:
    """A state whose copy fails if its value is set to fail."""

    def __init__(self, number, fails):
        self.number, self.fails = number, fails

    def __deepcopy__(self, memo):
        if self.fails == "deepcopy":
            raise KeyError("no deepcopy today")
        return self


class Model(Value, torch.nn.Linear):
    """A model of torch."""

    def __init__(self, number):
        torch.nn.Linear.__init__(self, 1, 1)
        torch.nn.init.constant_(self.weight, number)

    def state_dict(self):
        self._begin("state_dict")
        return torch.nn.Linear.state_dict(self)

    @property
    def number(self):
        return self.weight.item()


@pytest.mark.parametrize("kind, method", [(Value, "state_dict"), (Value, "load_state_dict"), (Value, "deepcopy"),
                                          (Model, "state_dict")])
@pytest.mark.parametrize("culprit", [0, 1])
def test_a_value_that_raises_on_one_rank_ends_sync_on_all(kind, method, culprit):
    state = hvd.elastic.State(first=1, value=kind(hvd.rank()), last=hvd.rank())
    if hvd.rank() == culprit:
        state.value.fails = method
        with pytest.raises(KeyError, match=f"no {method} today"):
            state.sync()
        state.value.fails = None
    else:
        why = f"rank {culprit} cannot take part: KeyError: .*no {method} today"
        with pytest.raises(anello.Mismatch, match=why) as caught:
            state.sync()
        assert caught.value.rank == culprit
    state.sync()
    assert (state.value.number, state.last) == (0, 0)


def test_without_a_world_a_state_has_the_values_of_its_own_broadcast():
    hvd.shutdown()
    state = hvd.elastic.State(bcast_object=lambda value: value, value=Value(3))
    state.sync()
    assert state.value.number == 3
