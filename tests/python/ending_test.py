"""Worlds that end badly: the errors of the ranks, and the times at which these errors come."""
import os
import signal
import subprocess
import sys

import pytest

PROGRAM = os.environ["ANELLO_PROGRAM"]


def job(script, ranks=2):
    """Starts ranks that run a script; the caller reads their output."""
    return subprocess.Popen([PROGRAM, "run", "-n", str(ranks), "--no-prefix", "--", sys.executable, "-u", "-c", script],
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_the_error_names_the_rank_that_died():
    out, err = job("""
import anello, numpy, os
world = anello.init()
if world.rank == 1: os._exit(3)
try: world.allreduce(numpy.ones(1))
except anello.RankFailed as error: print("rank", error.rank, error.code, flush=True)
""").communicate(timeout=300)
    assert out == "rank 1 rank_dead\n", err


def test_a_mismatch_is_told():
    out, err = job("""
import anello, numpy
world = anello.init()
try: world.allreduce(numpy.ones(1 + world.rank))
except anello.Mismatch as error: print("mismatch", flush=True)
world.leave()
""").communicate(timeout=300)
    assert out == "mismatch\n" * 2, err


def test_an_exception_in_the_with_block_ends_all_ranks():
    out, err = job("""
import anello
try:
    with anello.init() as world:
        if world.rank == 0: raise KeyError("lost")
        world.barrier()
except anello.RankFailed as error: print(error.rank, "KeyError: 'lost'" in str(error), flush=True)
""").communicate(timeout=300)
    assert out == "0 True\n", err


def test_an_exception_that_ends_the_script_ends_all_ranks():
    out, err = job("""
import anello, os
world = anello.init()
if world.rank == 0:
    if os.fork() == 0: raise ValueError("a child's own affair")
    os.wait()
    world.barrier()
    raise KeyError("lost")
world.barrier()
try: world.barrier()
except anello.RankFailed as error: print(error.code, error.rank, "KeyError: 'lost'" in str(error), flush=True)
""").communicate(timeout=300)
    assert out == "aborted 0 True\n", out + err


@pytest.mark.parametrize("begin, call, error", [
    ("import anello, numpy; world = anello.init()", "world.allreduce(numpy.ones(1 + world.rank))",
     "anello.errors.Mismatch: allreduce"),
    ("import torch, anello.torch as hvd; hvd.init()", "hvd.allreduce(torch.ones(1 + hvd.rank()))",
     "anello.errors.Mismatch: allreduce"),
    ("import anello; world = anello.init()", "world.allreduce(['1.5'])", "TypeError: str is not a tensor"),
    ("import anello; world = anello.init()", "world.allreduce(bytearray(1), op=3)", "ValueError: op must be one of"),
    ("import torch, anello.torch as hvd; hvd.init()", "hvd.allreduce('1')", "ValueError: a torch tensor is needed")])
def test_the_traceback_of_an_error_ends_at_the_call(begin, call, error):
    _, err = job(f"""
def train(): {call}
{begin}
train()
""").communicate(timeout=300)
    places = [line for line in err.splitlines() if line.startswith("  File ")]
    assert f"\n{error}" in err and "in train" in places[-1], err
    assert all("<string>" in place for place in places), err


TORCH = """
import anello, sys, time, torch
import anello.torch as hvd
import anello.horovod.ending
anello.horovod.ending.PATIENCE_S = 0.5
hvd.init()
hvd.allreduce(torch.ones(1))
"""


STALLS_SOON = "import os; os.environ['ANELLO_STALL_TIME'] = '500'\n" + TORCH
ENDS = "barrier 'hvd.shutdown(), or the end of the script'"


@pytest.mark.parametrize("ended", [0, 1])
def test_a_script_that_ends_too_early_does_not_stop_the_others_for_ever(ended):
    out, err = job(STALLS_SOON + f"""
anello.horovod.ending.PATIENCE_S = 6
if hvd.rank() == {ended}: sys.exit()
try: hvd.allreduce(torch.ones(1), name="loss")
except hvd.HorovodInternalError as error: print(error.rank, error.code, error, flush=True)
""").communicate(timeout=300)
    assert out.startswith(f"{ended} rank_left allreduce 'loss': rank {ended} on "), out + err
    # On a busy machine, the end of the group may be reported before the end of the world.
    left = [f" left {what}, but rank {1 - ended} waits in allreduce 'loss'\n" for what in ("the world", "group (0, 1)")]
    assert out.endswith(tuple(left)), out
    waits, instead = ("allreduce 'loss'", ENDS) if ended == 1 else (ENDS, "allreduce 'loss'")
    hint = "a rank that has no more data must call join()"
    assert f"{waits} waits for rank 1; rank 1 called {instead} instead; {hint}\n" in err, err
    assert f"rank {ended}'s script has ended. It waited 6 s for the others" in err and "call hvd.join()" in err, err


def test_a_rank_that_alone_ends_the_world_is_named():
    _, err = job(STALLS_SOON + """
import threading
if hvd.rank() == 1:
    threading.Timer(6, os._exit, (3,)).start()
    hvd.shutdown()
hvd.allreduce(torch.ones(1), name="loss")
""").communicate(timeout=300)
    assert f"allreduce 'loss' waits for rank 1; rank 1 called {ENDS} instead; a rank that has no more data" in err, err


@pytest.mark.parametrize("end, why", [("sys.exit(3)", "its script ended with status 3"),
                                      ("sys.exit('no data')", "its script ended with status 1: no data"),
                                      ("exit(3)", "its script ended with status 3"),
                                      ("exit(code=3)", "its script ended with status 3"),
                                      ("quit('no data')", "its script ended with status 1: no data"),
                                      ("raise KeyError('lost')", "KeyError: 'lost'")])
def test_a_script_that_fails_ends_the_others_at_once(end, why):
    out, err = job(TORCH + f"""
anello.horovod.ending.PATIENCE_S = 300
if hvd.rank() == 1: {end}
try: hvd.allreduce(torch.ones(1), name="loss")
except hvd.HorovodInternalError as error: print(error.rank, error.code, error, flush=True)
""").communicate(timeout=300)
    assert out.startswith("1 aborted ") and out.endswith(f" ended the world: {why}\n"), out + err


@pytest.mark.parametrize("call", ["sys.exit(3)", "exit(3)"])
def test_a_call_of_exit_that_something_catches_does_not_end_the_world(call):
    running = job(TORCH + f"""
def leave(): {call}
if hvd.rank() == 1:
    try: leave()
    except SystemExit as caught: assert caught.code == 3
    thread = threading.Thread(target=leave)
    thread.start(), thread.join()
assert hvd.allreduce(torch.ones(1), op=hvd.Sum).item() == 2
""".replace("def leave", "import threading\ndef leave"))
    _, err = running.communicate(timeout=300)
    assert running.returncode == 0 and not err, err


@pytest.mark.parametrize("other", ["sys.exit", "lambda code=None: None", "Other()"])
def test_an_exit_that_is_not_the_builtin_one_is_left_alone(other):
    """Debuggers and shells install their own exit()."""
    subprocess.run([sys.executable, "-c", f"""
import builtins, sys
class Other:
    def __call__(self, code=None): raise SystemExit(code)
call, builtins.exit = Other.__call__, {other}
left_alone = builtins.exit
import anello.torch
assert builtins.exit is left_alone and Other.__call__ is call
assert type(quit).__call__.__module__ == "anello.horovod.ending"
"""], check=True)


def test_what_ends_the_world_after_a_script_is_said_in_one_line():
    running = job(TORCH + """
anello.horovod.ending.PATIENCE_S = 300
if hvd.rank() == 1: time.sleep(4), sys.exit(3)
""")
    _, err = running.communicate(timeout=300)
    assert "rank 0's script had ended when the world failed: " in err and "Traceback" not in err, err


DISTRIBUTED = """
import anello.torch.distributed, anello.horovod.ending, sys, time, torch
import torch.distributed as dist
anello.horovod.ending.PATIENCE_S = 0.5
dist.init_process_group("anello")
rank = dist.get_rank()
dist.all_reduce(torch.ones(1))
"""


@pytest.mark.parametrize("end, why", [("sys.exit()", "the end of the script"),
                                      ("sys.exit(3)", "its script ended with status 3"),
                                      ("raise KeyError('lost')", "KeyError: 'lost'")])
def test_a_rank_of_torch_distributed_that_ends_too_early_is_named(end, why):
    out, err = job(DISTRIBUTED + f"""
if rank == 1: {end}
try: dist.all_reduce(torch.ones(1))
except RuntimeError as error: print("rank 1" in str(error), {why!r} in str(error), flush=True)
""").communicate(timeout=300)
    assert out == "True True\n", err


def test_a_data_parallel_model_names_the_rank_that_died_and_the_operation():
    """torch's C++ code waits for its buckets."""
    out, err = job(DISTRIBUTED + """
import os
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(3, 2))
if rank == 1: os._exit(3)
try: model(torch.ones(1, 3)).sum().backward()
except RuntimeError as error: print(error, flush=True)
""").communicate(timeout=300)
    assert "RankFailed: allreduce #" in out and "(sum of 8 f32)" in out and "rank 1 on " in out, out + err


def test_a_future_names_what_failed():
    """The future's wait() raises a RuntimeError, which torch makes of a callback's exception. The operation's wait()
    raises the error itself."""
    out, err = job(DISTRIBUTED + """
import os
if rank == 1: os._exit(3)
work = dist.all_reduce(torch.ones(3), async_op=True)
try: work.get_future().wait()
except RuntimeError as error: print("RankFailed: allreduce #" in str(error))
try: work.wait()
except anello.RankFailed as error: print(error.rank, flush=True)
""").communicate(timeout=300)
    assert out == "True\n1\n", out + err


def test_a_receive_with_another_tag_is_a_mismatch():
    out, err = job(DISTRIBUTED + """
pair = torch.zeros(2)
try:
    if rank == 0: works = [dist.isend(pair, 1, tag=1), dist.isend(pair, 1, tag=2)]
    if rank == 1: works = [dist.irecv(pair, 0, tag=2), dist.irecv(pair, 0, tag=1)]
    for work in works: work.wait()
    dist.barrier()
except anello.Mismatch as error: print("'tag 1'" in str(error), "'tag 2'" in str(error), flush=True)
""").communicate(timeout=300)
    assert out == "True True\nTrue True\n", out + err


def test_a_script_of_torch_distributed_may_end_late():
    running = job(DISTRIBUTED + "if rank == 1: time.sleep(3)")
    _, err = running.communicate(timeout=300)
    assert running.returncode == 0 and "Traceback" not in err, err


def test_a_script_may_end_late():
    running = job(TORCH + "if hvd.rank() == 1: time.sleep(3)")
    _, err = running.communicate(timeout=300)
    assert running.returncode == 0 and "Traceback" not in err, err


def test_a_child_of_a_rank_leaves_the_world_alone():
    out, err = job("""
import anello, numpy, os
world = anello.init()
work = world.allreduce_async(numpy.ones(100000))
child = os.fork()
if child == 0:
    try: world.barrier()
    except anello.InvalidArgument as error: assert "fork" in str(error)
    else: os._exit(1)
    del work, world
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
work.wait()
world.finish()
print("done", flush=True)
""").communicate(timeout=300)
    assert out == "done\n" * 2, err


@pytest.mark.parametrize("call", ["world.barrier()", "world.recv(numpy.ones(1), 1)", "work.wait()"])
def test_an_interrupt_is_seen_while_a_call_waits(call):
    running = job(f"""
import anello, numpy, os, signal, threading, time
world = anello.init()
if world.rank == 1:
    time.sleep(300)
work = world.recv_async(numpy.ones(1), 1)
threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
begun = time.monotonic()
try: {call}
except KeyboardInterrupt: print("interrupted", time.monotonic() - begun < 30, flush=True)
""")
    try:
        assert running.stdout.readline() == "interrupted True\n"
    finally:
        running.send_signal(signal.SIGTERM)
        running.communicate(timeout=300)


@pytest.mark.parametrize("mistake", ["a second backward pass", "an exception of the program",
                                     "an exception behind a gathered tensor"])
def test_a_process_ends_after_a_backward_pass_that_failed(mistake):
    """torch destroys the rest of the graph when the interpreter has ended: nothing in it may need Python."""
    out, err = job(f"""
import torch, anello.torch as hvd
hvd.init()

def fail(_):
    raise KeyError("lost")

def train():
    model = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.Tanh(), torch.nn.Linear(5, 3))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
    def backward():
        return model(torch.ones(4, 6)).sum().backward()
    backward(), optimizer.step(), optimizer.zero_grad(), backward()
    if {mistake!r} == "a second backward pass":
        backward()
    elif {mistake!r} == "an exception of the program":
        optimizer.step()
        model[2].bias.register_hook(fail)
        backward()
    else:
        bias = torch.zeros(3, requires_grad=True)
        bias.register_hook(fail)
        gathered = hvd.allgather(torch.ones(4, 3))
        ((model(torch.ones(len(gathered), 6)) * gathered).tanh() + bias).sum().backward()
    optimizer.synchronize()

try: train()
except (AssertionError, KeyError) as error: print(type(error).__name__, flush=True)
""").communicate(timeout=300)
    assert out == ("AssertionError\n" if mistake == "a second backward pass" else "KeyError\n") * 2, err


@pytest.mark.parametrize("rank", [0, 1])
def test_an_interrupt_ends_a_start_that_waits_for_others(rank):
    variables = {"RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "localhost",
                 "MASTER_PORT": str(10000 + os.getpid() % 10000)}
    running = subprocess.Popen([sys.executable, "-c", """
import anello, os, signal, threading, time
threading.Timer(1, os.kill, (os.getpid(), signal.SIGINT)).start()
begun = time.monotonic()
try: anello.init()
except KeyboardInterrupt: print("interrupted", time.monotonic() - begun < 20, flush=True)
"""], env={**os.environ, **variables}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    out, err = running.communicate(timeout=300)
    assert out == "interrupted True\n", err
    assert running.returncode == 0


@pytest.mark.parametrize("ranks, right, wrong, reason", [
    (3, "world.allreduce(numpy.ones(3))", "world.allreduce(numpy.frombuffer(bytes(24)))", "is read-only"),
    (2, "world.broadcast_object(root=1)", "world.broadcast_object(lambda: 1, root=1)", "pickle <function"),
    (2, "world.recv(numpy.ones(3), 1)", "world.send('abc', 0)", "str is not a tensor"),
    (2, "world.send(numpy.ones(1 << 22), 1)", "world.recv(b'abc', 0)", "bytes"),
    (2, "world.start_timeline('/dev/null')", "world.start_timeline(5)", "path must be the name of a file"),
    (3, "world.average(2)", "world.average('2')", "value must be a number")])
def test_a_call_that_is_refused_in_python_is_named_to_those_who_wait(ranks, right, wrong, reason):
    out, err = job(f"""
import anello, numpy, time
world = anello.init(["ANELLO_OPERATION_LIMIT=3000"])
world.barrier()
try: {wrong} if world.rank == 1 else {right}
except Exception: pass
while world.failure() is None: time.sleep(0.01)
print(world.failure().rank, "refused its call" in str(world.failure()), world.failure(), flush=True)
""", ranks).communicate(timeout=300)
    lines = out.splitlines()
    assert len(lines) == ranks and all(each.startswith("1 True") and reason in each for each in lines), out + err


@pytest.mark.parametrize("right, wrong", [
    ("dist.all_reduce(some)", "dist.all_reduce(some.to('meta'))"),
    ("dist.all_gather([some, some], some)", "dist.all_gather([some], some)"),
    ("dist.recv(some, 1)", "dist.send(some.to('meta'), 0)"),
    ("dist.send(torch.ones(1 << 22), 1)", "dist.recv(some.to('meta'), 0)")])
def test_so_is_a_call_that_the_backend_of_torch_refuses(right, wrong):
    out, err = job(f"""
import os, time
os.environ["ANELLO_OPERATION_LIMIT"] = "3000"
import torch, torch.distributed as dist, anello.torch.distributed as backend
dist.init_process_group("anello")
some = torch.ones(3)
dist.barrier()
try: {wrong} if dist.get_rank() == 1 else {right}
except Exception: pass
while backend._world.failure() is None: time.sleep(0.01)
print(backend._world.failure().rank, "refused its call" in str(backend._world.failure()), flush=True)
""").communicate(timeout=300)
    assert out.splitlines() == ["1 True"] * 2, out + err
