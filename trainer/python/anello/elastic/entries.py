"""The entries of a State: arrays, objects with a state_dict, and plain values."""
from __future__ import annotations

import array
import contextlib
import copy
import pickle
import sys
from typing import Any, Dict, Iterator, List, NamedTuple

from ..readers import require_dense
from ..tensors import is_torch, view
from ..view import kind_of
from .comparison import as_text


_UNCHANGEABLE = {bool, int, float, str, bytes, type(None)}
_UNSENDABLE = "cannot be sent to other ranks"


def _copy(value: Any) -> Any:
    """Does the same as copy.deepcopy(), but faster for numbers, texts and dicts of these: each commit copies all
    values."""
    if type(value) in _UNCHANGEABLE:
        return value
    if type(value) is dict and _UNCHANGEABLE.issuperset(map(type, (*value, *value.values()))):
        return value.copy()
    return copy.deepcopy(value)


@contextlib.contextmanager
def _naming(name: str, value: Any, problem: str) -> Iterator[None]:
    """Turns an exception of the block into a ValueError or TypeError that names the attribute and the problem."""
    try:
        yield
    except Exception as error:
        kind = ValueError if isinstance(error, ValueError) else TypeError
        raise kind(f"state.{name} ({kind_of(value)}) {problem}: {error}") from error


class Memory(NamedTuple):
    """A tensor of the state, which is sent to the tensor of the same name on other ranks.

    Attributes:
        compared: whether the tensor must be equal on all ranks.
    """

    name: str
    tensor: Any
    compared: bool = True


class Entry:
    """A part of the state: one attribute of the State. This class is for plain values.

    A rank whose world has failed sets its values back to those of its last commit, since a step that failed may have
    changed them. Memory that only an update writes is not set back.

    Attributes:
        value: the value of the attribute.
        holds_memory: whether the entry has memory that an update writes; no copy of this memory is kept.
    """

    holds_memory = False

    def __init__(self, name: str, value: Any) -> None:
        self.name = name
        self.value = value
        self._kept: Any = None

    def require_sendable(self) -> None:
        """Raises TypeError or ValueError, with the entry's name, if the values cannot be sent to other ranks."""
        with _naming(self.name, self.value, _UNSENDABLE):
            pickle.dumps(self.structure())

    def texts_named(self) -> Dict[str, bytes]:
        """Returns texts(). If there is no text, raises TypeError or ValueError with the entry's name."""
        with _naming(self.name, self.value, "cannot be compared"):
            return self.texts()

    def keep_named(self) -> None:
        """Calls keep(). If the values cannot be copied, raises TypeError or ValueError with the entry's name."""
        with _naming(self.name, self.value, "cannot be copied at a commit"):
            self.keep()

    def assign(self, value: Any) -> None:
        """Sets the attribute. Raises AttributeError if its object is fixed, TypeError or ValueError if the value cannot
        be sent."""
        # A value that has the type of the old one is only checked at the next commit.
        if type(value) not in _UNCHANGEABLE and type(value) is not type(self.value):
            Entry(self.name, value).require_sendable()
        self.value = value

    def manifest(self) -> List[str]:
        """A line for each part that must be alike on all ranks before anything is sent."""
        return [f"{self.name}: a value"]

    def structure(self) -> Any:
        """The values, and the shapes of tensors that other ranks may lack. The result is pickled and sent before the
        memory."""
        return self.value

    def adopt(self, structure: Any) -> None:
        """Takes the structure() of another rank."""
        self.value = structure

    def memory(self) -> List[Memory]:
        """The tensors that are sent, in the same order on all ranks that have adopted the same structure."""
        return []

    def texts(self) -> Dict[str, bytes]:
        """Texts by which ranks compare the parts that are not memory."""
        return {self.name: as_text(self.value)}

    def keep(self) -> None:
        """Keeps the values of this commit."""
        self._kept = _copy(self.value)

    def set_back(self) -> None:
        """Sets the values to those of keep()."""
        self.value = _copy(self._kept)


class FixedEntry(Entry):
    """An entry whose object cannot be replaced by another object; only the object's content changes."""

    def assign(self, value: Any) -> None:
        if value is not self.value:  # after state.weights *= 2, it is still the same object
            raise AttributeError(f"state.{self.name} is the {kind_of(self.value)} that the state was made with: write "
                                 "into it, do not replace it")


class MemoryEntry(FixedEntry):
    """An object that consists of memory alone, which is sent in place."""

    holds_memory = True

    def manifest(self) -> List[str]:
        return [_described(each) for each in self.memory()]

    def structure(self) -> Any:
        return None

    def adopt(self, structure: Any) -> None:
        pass

    def texts(self) -> Dict[str, bytes]:
        return {}

    def keep(self) -> None:
        pass

    def set_back(self) -> None:
        pass


def _described(memory: Memory) -> str:
    tensor = memory.tensor
    shape = tuple(tensor.shape) if hasattr(tensor, "shape") else view(tensor).shape
    return f"{memory.name}: {'x'.join(map(str, shape)) or 'one'} of {getattr(tensor, 'dtype', kind_of(tensor))}"


class ArrayEntry(MemoryEntry):
    """An array of numpy, a tensor of torch or a buffer."""

    def memory(self) -> List[Memory]:
        return [Memory(self.name, self.value)]


class StateDictEntry(FixedEntry):
    """An object with state_dict() and load_state_dict(), for example a schedule of learning rates."""

    def manifest(self) -> List[str]:
        return [f"{self.name}: {kind_of(self.value)}"]

    def structure(self) -> Any:
        return self.value.state_dict()

    def adopt(self, structure: Any) -> None:
        self.value.load_state_dict(structure)

    def texts(self) -> Dict[str, bytes]:
        return {self.name: as_text(self.value.state_dict())}

    def keep(self) -> None:
        self._kept = copy.deepcopy(self.value.state_dict())

    def set_back(self) -> None:
        self.value.load_state_dict(copy.deepcopy(self._kept))


def entry_of(name: str, value: Any) -> Entry:
    """The entry for an attribute. If the value cannot be sent, raises TypeError or ValueError that names the
    attribute."""
    with _naming(name, value, _UNSENDABLE):
        entry = _kind_of_entry(value)(name, value)
        entry.manifest()
        for each in entry.memory():
            require_writable(each)
        pickle.dumps(entry.structure())
    return entry


def _kind_of_entry(value: Any) -> Any:
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, (torch.nn.Module, torch.optim.Optimizer)):
        from . import torch_entries
        return torch_entries.kind_of_entry(value)
    numpy_array = getattr(sys.modules.get("numpy"), "ndarray", ())
    if is_torch(value) or isinstance(value, (array.array, bytearray, memoryview)) or isinstance(value, numpy_array):
        return ArrayEntry
    if hasattr(value, "state_dict") and hasattr(value, "load_state_dict"):
        return StateDictEntry
    return Entry


def require_writable(memory: Memory) -> None:
    """Raises ValueError or TypeError if the tensor cannot be sent.

    A tensor of torch that has gaps or is on a GPU is sent as a copy.
    """
    if is_torch(memory.tensor):
        require_dense(memory.tensor)
        view(memory.tensor.detach().new_empty(0, device="cpu"))  # TypeError for its type
    else:
        view(memory.tensor).in_place()
