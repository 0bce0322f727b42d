"""Every method that the installed torch calls on a group or its backend exists, or is refused by name."""
import ast
import inspect
import pathlib
import re

import pytest
import torch.distributed as dist

from anello.torch.distributed_group import AnelloProcessGroup
from anello.torch.distributed_names import FORMER_NAMES, REFUSED

# Variables and attributes of torch's module that hold groups or backends.
GROUPS = re.compile(r"(\w+_)?(group|pg|group_to_use|backend|backend_impl|backend_class|split_from)")

# Methods of torch's own class that work without a backend, or are meant for other classes.
INHERITED = {"_add_ephemeral_timeout", "_backend_id", "_get_backend_name", "_has_hooks", "_register_backend",
             "_set_default_backend", "_wait_for_pending_works", "name", "rank", "size"}
OF_TEXTS_AND_MAPS = set(dir(str)) | set(dir(dict))
OF_OTHERS = {"_set_sequence_number_for_group",  # asked of Gloo and NCCL
             "comm_split_count",  # called if it exists
             "get_comm",  # of TorchComms
             "new_group"}  # of TorchComms


def called():
    """The names of all methods that torch calls on groups, each with a line of torch that calls it."""
    tree = ast.parse(pathlib.Path(inspect.getsourcefile(dist.distributed_c10d)).read_text())
    functions = (node.func for node in ast.walk(tree) if isinstance(node, ast.Call))
    for function in functions:
        if isinstance(function, ast.Attribute):
            on = function.value
            name = on.id if isinstance(on, ast.Name) else on.attr if isinstance(on, ast.Attribute) else ""
            if isinstance(on, ast.Call) and isinstance(on.func, ast.Name):
                name = on.func.id  # _get_default_group().rank()
            if GROUPS.fullmatch(name):
                yield function.attr, function.lineno


def test_every_method_that_torch_calls_is_there():
    lines = dict(called())
    assert {"allreduce", "rank"} < set(lines), "the names of torch's variables have changed"
    others = INHERITED | OF_TEXTS_AND_MAPS | OF_OTHERS
    ours = {name for group in AnelloProcessGroup.__mro__ if group.__module__.startswith("anello")
            for name in vars(group)}
    missing = {name: line for name, line in lines.items() if name not in ours | others}
    assert not missing, "torch calls these, at lines of distributed_c10d.py"


def test_former_names_are_those_of_one_method():
    for name, former in FORMER_NAMES.items():
        assert {getattr(AnelloProcessGroup, each) for each in former} == {getattr(AnelloProcessGroup, name)}


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_refusals_name_the_call_and_the_remedy(name):
    with pytest.raises(NotImplementedError, match=rf"has no {name}\(\): {re.escape(REFUSED[name])}"):
        getattr(AnelloProcessGroup, name)(None, 1, anything=2)
