"""The threads that complete operations of torch.distributed: their beginning, and their end with the script."""
import threading

import pytest
from ending_test import DISTRIBUTED, job

from anello.torch.distributed_work import Completer

LIMIT_S = 300


class Step:
    """Done when `may_end` is set."""

    def __init__(self, may_end=None):
        self.may_end, self.done = may_end, threading.Event()

    def complete(self):
        if self.may_end is not None:
            assert self.may_end.wait(LIMIT_S)
        self.done.set()


def test_what_comes_after_the_end_of_a_thread_is_done():
    may_end, completer = threading.Event(), Completer()
    first, second = Step(may_end), Step()
    completer.add(first)
    completer.stop()
    completer.add(second)
    may_end.set()
    assert first.done.wait(LIMIT_S) and second.done.wait(LIMIT_S)
    Completer.stop_all(LIMIT_S)


def test_a_thread_that_cannot_start_is_tried_again(monkeypatch):
    def cannot_start(_):
        raise RuntimeError("can't start new thread")

    completer, step = Completer(), Step()
    with monkeypatch.context() as full:
        full.setattr(threading.Thread, "start", cannot_start)
        with pytest.raises(RuntimeError, match="new thread"):
            completer.add(Step())
    completer.add(step)
    assert step.done.wait(LIMIT_S)
    Completer.stop_all(LIMIT_S)


def test_the_end_of_all_has_a_limit():
    may_end, completer = threading.Event(), Completer()
    step = Step(may_end)
    completer.add(step)
    with pytest.raises(TimeoutError, match="not done after 0.01 s"):
        Completer.stop_all(0.01)
    may_end.set()
    Completer.stop_all(LIMIT_S)
    assert step.done.is_set()


@pytest.mark.parametrize("source", ["1 - rank", "None"])
def test_scripts_end_with_receives_that_nobody_sends_for(source):
    running = job(DISTRIBUTED + f"work = dist.irecv(torch.ones(1), {source})")
    _, err = running.communicate(timeout=LIMIT_S)
    assert running.returncode == 0 and "Traceback" not in err, err
    assert "script has ended. It waited 0.5 s for the others" in err, err


@pytest.mark.parametrize("end, why", [("import os; os._exit(3)", "rank 1 on "), ("raise KeyError('lost')", "'lost'")])
def test_a_receive_from_any_rank_ends_with_the_world(end, why):
    out, err = job(DISTRIBUTED + f"""
work = dist.irecv(torch.ones(1))
if rank == 1: {end}
try: work.wait()
except RuntimeError as error: print({why!r} in str(error), flush=True)
""").communicate(timeout=LIMIT_S)
    assert out == "True\n", out + err


def test_handlers_of_the_script_may_use_its_group():
    running = job("""
import atexit, torch, torch.distributed as dist
import anello.torch.distributed

def last():
    if rank == 0: dist.send(torch.ones(1), 1)
    if rank == 1: dist.recv(torch.ones(1), 0), dist.all_reduce(torch.ones(1))
    dist.barrier()
    print("done", flush=True)

atexit.register(last)
dist.init_process_group("anello")
rank = dist.get_rank()
if rank == 0: work = dist.all_reduce(torch.ones(1), async_op=True)  # done in the handlers
""")
    out, err = running.communicate(timeout=LIMIT_S)
    assert running.returncode == 0 and out == "done\ndone\n", out + err
