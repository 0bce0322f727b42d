"""The world: all ranks of a job."""
from __future__ import annotations

import contextlib
import ctypes
import sys
import weakref
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence

from ._library import default, header, lib
from .group import Group
from .work import Owned


_worlds: "weakref.WeakSet[World]" = weakref.WeakSet()
script_failures: List[str] = []  # why the script of this process ended, if not in good order


class World(Group):
    """All ranks of a job, as a group; made by `anello.init()`. As a context manager it ends with finish().

    An exception that ends the script, or leaves the `with` block, ends the world on every rank with that reason.
    """

    def __init__(self, handle: int) -> None:
        self._world = Owned(handle, lib.anello_world_free)
        super().__init__(Owned(lib.anello_world_group(handle), lambda _: None))
        self.local_rank: int = lib.anello_local_rank(handle)
        self.local_size: int = lib.anello_local_size(handle)
        self.node_rank: int = lib.anello_node_rank(handle)
        self.node_count: int = lib.anello_node_count(handle)
        _worlds.add(self)

    def __enter__(self) -> "World":
        return self

    def __exit__(self, kind: Any, error: Any, _: Any) -> None:
        if kind is None:
            self.finish()
        elif issubclass(kind, Exception):
            self.abort(f"{kind.__name__}: {error}")

    def finish(self) -> None:
        """Ends the world in good order: blocks until every rank has called it."""
        lib.anello_finish(self._world.handle)
        self._end()

    def abort(self, reason: str) -> None:
        """Ends the world on every rank: their calls raise RankFailed with this rank and the reason."""
        lib.anello_abort(self._world.handle, reason.encode())

    def leave(self) -> None:
        """Leaves the world without waiting; finish() is the good way."""
        self._end()

    def _end(self) -> None:
        if self._owned.is_ours():
            with self._receiving:
                self._owned.free()
        self._world.free()

    def failure(self) -> Optional[Exception]:
        """The error that ended the world; None while it is in order."""
        try:
            lib.anello_failure(self._world.handle)
        except Exception as error:  # what the library reports, whatever its kind
            return error
        return None

    def host(self, rank: int) -> str:
        """The name of the host on which a rank runs."""
        return self._text(lib.anello_host, rank)

    @property
    def layout(self) -> str:
        """Four words, for example "4 1 memory shared"; see anello_layout in anello.h."""
        return self._text(lib.anello_layout)

    def _text(self, function: Any, *arguments: Any) -> str:
        found = ctypes.c_char_p()
        function(self._world.handle, *arguments, ctypes.byref(found))
        return (found.value or b"").decode()

    def counters(self) -> Dict[str, int]:
        """Totals of this rank since the world began; see anello_counters in anello.h."""
        counters = default("anello_counters")
        lib.anello_get_counters(self._world.handle, ctypes.byref(counters))
        return {name: getattr(counters, name) for name, _ in counters._fields_[1:]}

    def write_flight(self, path: str) -> None:
        """Writes this rank's last operations to a file, as JSON."""
        lib.anello_write_flight(self._world.handle, str(path).encode())

    def start_timeline(self, path: str) -> None:
        """All ranks begin to record. All ranks call; blocks."""
        lib.anello_start_timeline(self._world.handle, str(path).encode())

    def stop_timeline(self) -> None:
        """Rank 0 writes the timeline of all ranks for Perfetto. All ranks call; blocks."""
        lib.anello_stop_timeline(self._world.handle)

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """A part of the program's own work that the timeline shows: `with world.phase("backward"):`."""
        phase = ctypes.c_void_p()
        lib.anello_phase_begin(self._world.handle, name.encode(), ctypes.byref(phase))
        try:
            yield
        finally:
            lib.anello_phase_end(phase)


def _note_uncaught(kind: Any, error: Any, trace: Any) -> None:
    """For sys.excepthook. At an interpreter's prompt an exception is no end."""
    if not hasattr(sys, "ps1"):
        script_failures.append(f"{kind.__name__}: {error}")
        for world in list(_worlds):
            if world._world.handle and world._world.is_ours():
                world.abort(script_failures[-1])
    _excepthook(kind, error, trace)


_excepthook, sys.excepthook = sys.excepthook, _note_uncaught


def init(settings: Sequence[str] = ()) -> World:
    """Joins the world that the environment describes; started by nothing, a world of one rank.

    Blocks until all ranks have joined, but not longer than ANELLO_START_TIMEOUT.

    Args:
        settings: replace those of the environment: ["ANELLO_RANK=3", ...].
    """
    world, config = ctypes.c_void_p(), _config(settings)
    lib.anello_init(ctypes.byref(config), ctypes.byref(world))
    return World(world.value or 0)


def init_through(rank: int, size: int, put: Callable[[str, str], None], get: Callable[[str, float], str],
                 name: str = "exchange", settings: Sequence[str] = ()) -> World:
    """Joins a world whose ranks find each other through somebody else's key-value store.

    Args:
        rank, size: of this process and of the world.
        put: stores a text under a new key.
        get: the text of a key, when a rank has stored it; raises if that takes longer than so many seconds.
        name: of the exchange, the same on all ranks.
        settings: as those of init().
    """
    failures = []

    def call_put(_: Any, key: bytes, value: bytes) -> int:
        try:
            put(key.decode(), value.decode())
        except Exception as error:  # an exception cannot pass through the library
            failures.append(error)
        return len(failures)

    def call_get(_: Any, key: bytes, limit_ms: int, value: int, capacity: int) -> int:
        try:
            text = get(key.decode(), limit_ms / 1000).encode() + b"\0"
            ctypes.memmove(value, text, min(len(text), capacity))
            return int(len(text) > capacity)
        except Exception as error:
            failures.append(error)
        return 1

    exchange = default("anello_exchange")
    kinds = dict(header.structs["anello_exchange"]._fields_)
    exchange.put, exchange.get = kinds["put"](call_put), kinds["get"](call_get)
    exchange.rank, exchange.size, exchange.name = rank, size, name.encode()
    world, config = ctypes.c_void_p(), _config(settings)
    try:
        lib.anello_init_through(ctypes.byref(exchange), ctypes.byref(config), ctypes.byref(world))
    except Exception as error:
        raise error from (failures[0] if failures else None)
    return World(world.value or 0)


def _config(settings: Sequence[str]) -> Any:
    config = default("anello_config")
    config.held = (ctypes.c_char_p * len(settings))(*[each.encode() for each in settings])
    config.settings, config.settings_size = ctypes.addressof(config.held), len(settings)
    return config
