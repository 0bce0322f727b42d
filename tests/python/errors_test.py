"""Python's output for an uncaught error."""
import traceback

import pytest

from anello import errors


def through(modules, error):
    """The traceback of an error that the last module raised. Each module was called by the module before it."""
    call = error
    for name in reversed(modules):
        made = {"__name__": name, "call": call}
        exec("def run():\n  if isinstance(call, Exception): raise call\n  call()", made)
        call = made["run"]
    with pytest.raises(type(error)) as caught:
        call()
    return caught.value, caught.value.__traceback__.tb_next


@pytest.mark.parametrize("modules, left", [
    (["__main__", "anello.group"], 1),
    (["__main__", "anello.torch.ops", "torch.autograd.function", "anello.torch.autograd"], 1),
    (["__main__", "torch.optim.lr_scheduler", "anello.torch.optimizer", "torch.autograd.grad_mode", "anello.work"], 1),
    (["__main__", "anello.training", "models", "anello.group"], 3),
    (["__main__", "anello.training", "models"], 3), (["__main__", "torch.nn.functional"], 2),
    (["__main__", "anello.training", "torch.serialization"], 3), (["anello.__main__"], 1)])
def test_a_traceback_ends_at_the_call_of_the_program(monkeypatch, modules, left):
    shown = []
    monkeypatch.setattr(errors, "_excepthook", lambda *what: shown.append(what))
    error, trace = through(modules, ValueError("wrong"))
    errors._show(ValueError, error, trace)
    assert [each.f_globals["__name__"] for each, _ in traceback.walk_tb(shown[0][2])] == modules[:left]


def test_errors_of_other_kinds_are_shown_as_they_are(monkeypatch):
    shown = []
    monkeypatch.setattr(errors, "_excepthook", lambda *what: shown.append(what))
    error, trace = through(["__main__", "anello.group"], KeyError("lost"))
    errors._show(KeyError, error, trace)
    assert len(list(traceback.walk_tb(shown[0][2]))) == 2
