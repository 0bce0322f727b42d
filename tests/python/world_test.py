"""The world as an object: its beginning and its end, without other ranks."""
import copy
import ctypes
import pickle
import threading
import types

import pytest

import anello
from anello import agenda, arguments, interruption, world as module


@pytest.mark.parametrize("reason, sent", [("bad file \udcff.txt", b"bad file \\udcff.txt"), ("a\0b", b"a\\x00b"),
                                          ("\u00e9", "\u00e9".encode())])
def test_a_reason_reaches_the_other_ranks_whatever_it_has(monkeypatch, reason, sent):
    seen = []
    monkeypatch.setattr(module, "lib", types.SimpleNamespace(anello_abort=lambda _, text: seen.append(text)))
    made = object.__new__(module.World)
    made._world = types.SimpleNamespace(handle=1)
    made.__exit__(ValueError, ValueError(reason), None)
    assert seen == [b"ValueError: " + sent]


def test_names_of_files():
    assert arguments.file_name("path", "a\udcff") == b"a\xff" == arguments.file_name("path", b"a\xff")
    with pytest.raises(ValueError, match="path must not contain a zero byte"):
        arguments.file_name("path", "a\0b")
    with pytest.raises(TypeError, match="path must be the name of a file, not 5"):
        arguments.file_name("path", 5)


@pytest.mark.parametrize("ends", ["before the interrupt", "after it"])
def test_a_world_that_begins_when_ctrl_c_comes_is_freed_once(monkeypatch, ends):
    freed, interrupted, real = [], threading.Event(), threading.Event

    class Event(real):
        def wait(self, timeout=None):
            if timeout is None and ends == "after it":
                raise KeyboardInterrupt
            if timeout is not None:
                interrupted.set()
            assert super().wait(60)
            if timeout is None:
                raise KeyboardInterrupt

    def start(config, world):
        if ends == "after it":
            assert interrupted.wait(60)
        ctypes.cast(world, ctypes.POINTER(ctypes.c_void_p))[0] = 7

    monkeypatch.setattr(interruption, "threading", types.SimpleNamespace(
        Event=Event, Thread=threading.Thread, current_thread=threading.current_thread,
        main_thread=threading.main_thread))
    with pytest.raises(KeyboardInterrupt):
        interruption.made(module.config_of(()), start, freed.append)
    assert freed == [7]


def test_a_world_that_has_ended_says_so():
    with anello.init() as world:
        named = agenda.Agenda(world)
        named.free()
        with pytest.raises(ValueError, match="the agenda has ended"):
            named.barrier()
        world.finish()
    world.finish(), world.leave(), world.abort("too late")
    assert world.failure() is None
    for call in (world.barrier, world.counters, lambda: world.layout, lambda: world.host(0),
                 lambda: world.write_flight("a"), lambda: world.start_timeline("a"), world.phase("a").__enter__):
        with pytest.raises(ValueError, match="the world has ended"):
            call()


def test_an_error_after_the_end_of_the_world_leaves_its_block():
    with pytest.raises(KeyError, match="the script's own"):
        with anello.init() as world:
            world.finish()
            raise KeyError("the script's own")


def test_what_has_ended_a_world_is_found_after_it():
    world = anello.init()
    world.abort("for a test")
    world.leave()
    assert isinstance(world.failure(), anello.RankFailed) and "for a test" in str(world.failure())


@pytest.mark.parametrize("wrong", ["ANELLO_RANK=0", {"ANELLO_RANK": "0"}, [3], 3])
def test_settings_that_are_no_list_of_texts_are_refused(wrong):
    with pytest.raises(TypeError, match="settings must be a list, for example"):
        anello.init(wrong)


@pytest.mark.parametrize("change", [copy.deepcopy, pickle.dumps])
def test_a_world_is_neither_copied_nor_pickled(change):
    with anello.init() as world:
        for each in (world, world.group([0]), agenda.Agenda(world), world.barrier_async()):
            with pytest.raises(TypeError, match="cannot be pickled or copied"):
                change({"any": each})
