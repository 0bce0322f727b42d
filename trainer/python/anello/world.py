"""The world: all ranks of a job."""
from __future__ import annotations

import contextlib
import ctypes
import sys
import weakref
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence

from . import arguments
from ._library import default, header, lib
from .arguments import file_name, readable
from .group import Group
from .interruption import made
from .refusals import collective
from .work import Owned


_worlds: "weakref.WeakSet[World]" = weakref.WeakSet()
script_failures: List[str] = []  # why the script of this process failed, if it did


class World(Group):
    """All ranks of a job, as a group; made by `anello.init()`. As a context manager it ends with finish().

    An exception that ends the script or leaves the `with` block ends the world on every rank, with the exception as the
    reason. Calls on a world that has ended raise ValueError.
    """

    _what = "world"

    def __init__(self, handle: int, free: Callable[[int], Any] = lib.anello_world_free) -> None:
        self._failure: Optional[Exception] = None  # the error of a world that has ended
        self._world = Owned(handle, free)
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
        """Ends the world regularly: blocks until every rank has called it. Does nothing if the world has ended."""
        if self._world.handle:
            lib.anello_finish(self._world.handle)
            self._end(None)

    def abort(self, reason: str) -> None:
        """Ends the world on every rank: all ranks' calls raise RankFailed with this rank's number and the reason.

        Does nothing if this rank's world has ended.
        """
        if self._world.handle:
            lib.anello_abort(self._world.handle, readable(reason))

    def leave(self) -> None:
        """Leaves the world without waiting; prefer finish(). Does nothing if the world has ended."""
        self._end(self.failure())

    def _end(self, failure: Optional[Exception]) -> None:
        self._failure = failure
        if self._owned.is_ours():
            with self._receiving:
                self._owned.free()
        self._world.free()

    def failure(self) -> Optional[Exception]:
        """The error that ended the world; None before the end, and after a regular end."""
        if not self._world.handle:
            return self._failure
        try:
            lib.anello_failure(self._world.handle)
        except Exception as error:  # any kind of error that the library reports
            return error
        return None

    def host(self, rank: int) -> str:
        """The name of the host on which a rank runs."""
        return self._text(lib.anello_host, self._rank("rank", rank))

    @property
    def layout(self) -> str:
        """Four words, for example "4 1 memory shared"; see anello_layout in anello.h."""
        return self._text(lib.anello_layout)

    def _text(self, function: Any, *arguments: Any) -> str:
        found = ctypes.c_char_p()
        function(self._world.live(self._what), *arguments, ctypes.byref(found))
        return (found.value or b"").decode()

    def counters(self) -> Dict[str, int]:
        """Totals of this rank since the world began; see anello_counters in anello.h."""
        counters = default("anello_counters")
        lib.anello_get_counters(self._world.live(self._what), ctypes.byref(counters))
        return {name: getattr(counters, name) for name, _ in counters._fields_[1:]}

    def write_flight(self, path: str) -> None:
        """Writes this rank's last operations to a file, as JSON."""
        lib.anello_write_flight(self._world.live(self._what), file_name("path", path))

    @collective
    def start_timeline(self, path: str) -> None:
        """Starts the recording on all ranks. All ranks call; blocks."""
        lib.anello_start_timeline(self._world.live(self._what), file_name("path", path))

    @collective
    def stop_timeline(self) -> None:
        """Rank 0 writes the timeline of all ranks for Perfetto. All ranks call; blocks."""
        lib.anello_stop_timeline(self._world.live(self._what))

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Shows a part of the program's own work in the timeline: `with world.phase("backward"):`."""
        phase = ctypes.c_void_p()
        lib.anello_phase_begin(self._world.live(self._what), readable(name), ctypes.byref(phase))
        try:
            yield
        finally:
            lib.anello_phase_end(phase)


def _note_uncaught(kind: Any, error: Any, trace: Any) -> None:
    """Notes the exception that ends the script; installed as sys.excepthook. In an interactive interpreter an exception
    does not end the script."""
    if not hasattr(sys, "ps1"):
        script_failures.append(f"{kind.__name__}: {error}")
        for world in list(_worlds):
            if world._world.handle and world._world.is_ours():
                world.abort(script_failures[-1])
    _excepthook(kind, error, trace)


_excepthook, sys.excepthook = sys.excepthook, _note_uncaught


def init(settings: Sequence[str] = ()) -> World:
    """Joins the world that the environment describes. Without a launcher this is a world of one rank.

    Blocks until all ranks have joined, but not longer than ANELLO_START_TIMEOUT.

    Args:
        settings: these settings replace those of the environment: ["ANELLO_RANK=3", ...].
    """
    return World(made(config_of(settings), lib.anello_init, lib.anello_world_free))


def init_through(rank: int, size: int, put: Callable[[str, str], None], get: Callable[[str, float], str],
                 name: str = "exchange", settings: Sequence[str] = ()) -> World:
    """Joins a world whose ranks find each other through a key-value store of the program or another library.

    Args:
        rank, size: this process's number, and the number of ranks.
        put: stores a text under a new key.
        get: waits until a rank has stored a key, and returns the key's value; raises if this takes longer than the
            given seconds.
        name: the name of the exchange, the same on all ranks.
        settings: as in init().
    """
    failures = []

    def call_put(_: Any, key: bytes, value: bytes) -> int:
        try:
            put(key.decode(), value.decode())
        except BaseException as error:  # an exception cannot pass through the library
            failures.append(error)
        return len(failures)

    def call_get(_: Any, key: bytes, limit_ms: int, value: int, capacity: int) -> int:
        try:
            text = get(key.decode(), limit_ms / 1000).encode() + b"\0"
            ctypes.memmove(value, text, min(len(text), capacity))
            return int(len(text) > capacity)
        except BaseException as error:
            failures.append(error)
        return 1

    exchange = default("anello_exchange")
    kinds = {field[0]: field[1] for field in header.structs["anello_exchange"]._fields_}
    exchange.put, exchange.get = kinds["put"](call_put), kinds["get"](call_get)
    exchange.rank, exchange.size, exchange.name = rank, size, name.encode()
    try:
        return World(made(config_of(settings),
                          lambda config, world: lib.anello_init_through(ctypes.byref(exchange), config, world),
                          lib.anello_world_free))
    except Exception as error:
        raise error from (failures[0] if failures else None)


def config_of(settings: Sequence[str]) -> Any:
    """The settings as an anello_config."""
    config, texts = default("anello_config"), arguments.settings(settings)
    config.held = (ctypes.c_char_p * len(texts))(*texts)
    config.settings, config.settings_size = ctypes.addressof(config.held), len(texts)
    return config
