"""The entries of a state of torch. An optimizer without tensors receives the tensors of another optimizer."""
import copy
import pickle

import pytest
import torch

from anello.elastic import State
from anello.elastic.entries import entry_of

OPTIMIZERS = {
    "sgd": lambda its: torch.optim.SGD(its, lr=0.1, momentum=0.9),
    "plain sgd": lambda its: torch.optim.SGD(its, lr=0.1),
    "adam": lambda its: torch.optim.Adam(its, lr=0.1, amsgrad=True),
    "adagrad": lambda its: torch.optim.Adagrad(its, lr=0.1),
    "rmsprop": lambda its: torch.optim.RMSprop(its, lr=0.1, centered=True),
    "lbfgs": lambda its: torch.optim.LBFGS(its, lr=0.1, max_iter=2),
    "two groups": lambda its: torch.optim.SGD([{"params": its[:1], "lr": 0.5}, {"params": its[1:]}], lr=0.1, momentum=1),
}


class Training:
    """A model with an optimizer, after some steps."""

    def __init__(self, optimizer, steps, seed=0):
        torch.manual_seed(seed)
        self.model = torch.nn.Linear(3, 2).double()
        self.optimizer = OPTIMIZERS[optimizer](list(self.model.parameters()))
        for _ in range(steps):
            self.step()

    def step(self):
        def loss():
            self.optimizer.zero_grad()
            value = self.model(torch.arange(6.0, dtype=torch.float64).reshape(2, 3)).pow(2).sum()
            value.backward()
            return value

        self.optimizer.step(loss)

    def entries(self):
        return [entry_of("model", self.model), entry_of("optimizer", self.optimizer)]


def send(source, receiver):
    """Copies the entries as a synchronization would send them, but without ranks."""
    for given, own in zip(source.entries(), receiver.entries()):
        assert given.manifest() == own.manifest()
        own.adopt(pickle.loads(pickle.dumps(given.structure())))
        assert [each.name for each in own.memory()] == [each.name for each in given.memory()]
        for theirs, ours in zip(given.memory(), own.memory()):
            assert ours.tensor.dtype == theirs.tensor.dtype and ours.tensor.shape == theirs.tensor.shape
            ours.tensor.detach().copy_(theirs.tensor)
        assert given.texts() == own.texts()


@pytest.mark.parametrize("steps_before", [0, 1, 5])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_an_optimizer_goes_on_as_the_one_whose_state_it_got(optimizer, steps_before):
    source, receiver = Training(optimizer, 3), Training(optimizer, steps_before, seed=1)
    source.optimizer.param_groups[0]["lr"] = 0.03  # as a schedule does
    send(source, receiver)
    for _ in range(3):
        source.step()
        receiver.step()
    for theirs, own in zip(source.model.parameters(), receiver.model.parameters()):
        assert torch.equal(theirs, own)


def test_a_state_of_the_beginning_replaces_a_later_one():
    source, receiver = Training("adam", 0), Training("adam", 4)
    send(source, receiver)
    assert not receiver.optimizer.state


def test_settings_are_set_back():
    training = Training("two groups", 1)
    entry = training.entries()[1]
    entry.keep()
    training.optimizer.param_groups[0]["lr"] = 9.0
    entry.set_back()
    assert [group["lr"] for group in training.optimizer.param_groups] == [0.5, 0.1]
    assert all(group["params"] for group in training.optimizer.param_groups)


@pytest.mark.parametrize("value", [{"a": 1, "b": "text"}, {"a": [1]}, {"a": {"b": 1}}, [{"a": 1}]])
def test_a_value_that_the_program_changes_is_set_back(value):
    entry, before = entry_of("value", value), copy.deepcopy(value)
    entry.keep()
    for _ in range(2):  # what is set back is a copy as well
        inner = entry.value[0] if isinstance(entry.value, list) else entry.value
        (inner["a"] if isinstance(inner["a"], (list, dict)) else inner).clear()
        assert entry.value != before
        entry.set_back()
        assert entry.value == before


def test_memory_is_sent_where_it_lies():
    training = Training("sgd", 1)
    kept = [each.tensor.data_ptr() for entry in training.entries() for each in entry.memory()]
    send(Training("sgd", 2), training)
    assert [each.tensor.data_ptr() for entry in training.entries() for each in entry.memory()] == kept


def test_a_tied_parameter_is_sent_once():
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 3))
    model[1].weight = model[0].weight
    names = [each.name for each in entry_of("model", model).memory()]
    assert names == ["model.0.weight", "model.0.bias", "model.1.bias"]


@pytest.mark.parametrize("model, why", [(torch.nn.LazyLinear(3), "run a forward pass first"),
                                        (torch.nn.Linear(2, 2, dtype=torch.complex64), "tensors of torch.complex64")])
def test_a_module_that_cannot_be_sent(model, why):
    with pytest.raises((TypeError, ValueError), match=rf"state.model \(torch.* cannot be sent to other ranks: .*{why}"):
        State(model=model)


class WithExtraState(torch.nn.Linear):
    """A layer with a state that is neither a parameter nor a buffer."""

    def get_extra_state(self):
        return {"calls": 3}


def test_extra_state_is_refused():
    with pytest.raises(TypeError, match="its 0._extra_state is neither a parameter nor a buffer"):
        State(model=torch.nn.Sequential(WithExtraState(2, 2)))


def test_buffers_that_are_saved_are_kept_and_not_compared():
    model = torch.nn.Sequential(torch.nn.BatchNorm1d(2), torch.nn.Linear(2, 2))
    model[1].register_buffer("scratch", torch.zeros(1), persistent=False)
    entry = entry_of("model", model)
    assert [each.name for each in entry.memory() if not each.compared] == [
        "model.0.running_mean", "model.0.running_var", "model.0.num_batches_tracked"]
    entry.keep()
    model(torch.ones(4, 2))
    entry.set_back()
    assert model[0].num_batches_tracked == 0 and torch.equal(model[0].running_mean, torch.zeros(2))
