"""Worlds of anello.tensorflow that end badly, and Ctrl-C."""
import os
import subprocess
import sys
import tempfile

PROGRAM = os.environ["ANELLO_PROGRAM"]
BEGIN = """
import os, signal, sys, threading, time
import tensorflow as tf
import anello.tensorflow as hvd
hvd.init()
stamps = []
def when_waiting(signum):
    "Sends a signal once the main thread has slept for 0.3 s in a row, however busy the machine is."
    def look():
        asleep = 0
        while asleep < 30:
            time.sleep(0.01)
            asleep = asleep + 1 if open("/proc/self/stat").read().rsplit(")", 1)[1].split()[0] == "S" else 0
        stamps.append(time.time())
        os.kill(os.getpid(), signum)
    threading.Thread(target=look, daemon=True).start()
def mark(): open(os.environ["MARK"], "w").close()
def await_mark():
    while not os.path.exists(os.environ["MARK"]): time.sleep(0.01)
"""


def job(script, ranks=2, **variables):
    """Runs ranks of a script, and returns their output. `mark()` of one rank ends `await_mark()` of another."""
    with tempfile.TemporaryDirectory() as folder:
        return subprocess.run([PROGRAM, "run", "-n", str(ranks), "--no-prefix", "--", sys.executable, "-u", "-c",
                               BEGIN + script], capture_output=True, text=True, timeout=300,
                              env={**os.environ, "MARK": folder + "/mark", **variables})


def test_a_rank_that_dies_is_named_in_a_function_and_outside():
    ended = job("""
step = tf.function(lambda value: hvd.allreduce(value, name="loss"))
step(1.0)
if hvd.rank() == 1: os.kill(os.getpid(), signal.SIGKILL)
try: step(1.0)
except tf.errors.InternalError as error: print("loss" in str(error), "rank 1" in str(error), flush=True)
state = hvd.elastic.State()
try: hvd.elastic.run(lambda state: None)(hvd.elastic.State(epoch=1))
except hvd.HorovodInternalError as error: print(error.rank, error.code, flush=True)
state.sync = lambda: None
try: hvd.elastic.run(lambda state: step(1.0))(state)
except hvd.HorovodInternalError as error: print(error.rank, error.code, flush=True)
try: hvd.allreduce(1.0)
except hvd.HorovodInternalError as error: print(error.rank, error.code, flush=True)
""")
    assert ended.stdout == "True True\n" + "1 rank_dead\n" * 3, ended.stdout + ended.stderr


def test_an_exception_of_a_signal_handler_interrupts_an_eager_call_that_goes_on():
    ended = job("""
import gc
class Late(Exception): pass
def late(*_): raise Late("too late")
if hvd.rank() == 0:
    signal.signal(signal.SIGALRM, late)
    for verb in (lambda: hvd.allreduce(tf.ones([1 << 20]), op=hvd.Sum), lambda: hvd.allgather(tf.ones([1 << 20]))):
        when_waiting(signal.SIGALRM)
        try: verb()
        except Late as error: print(error, error.__traceback__ is not None, error.__cause__, flush=True)
    gc.collect()
    others = [tf.zeros([1 << 20]) for _ in range(8)]
    mark()
else:
    await_mark()
    print(hvd.allreduce(tf.ones([1 << 20]), op=hvd.Sum).numpy().sum() == 2 << 20, flush=True)
    print(hvd.allgather(tf.ones([1 << 20])).numpy().sum() == 2 << 20, flush=True)
print(hvd.allreduce(float(hvd.rank())).numpy(), flush=True)
""")
    assert sorted(ended.stdout.splitlines()) == ["0.5", "0.5", "True", "True", "too late True None",
                                                 "too late True None"], ended.stdout + ended.stderr
    assert ended.returncode == 0


def test_an_interruption_that_another_one_overtakes_is_forgotten():
    ended = job("""
import gc, weakref
class Late(KeyboardInterrupt): pass
overtaken = []
def late(*_):
    error = Late()
    overtaken.append(weakref.ref(error))
    raise error
def overtake(frame, event, argument):
    if event == "exception" and argument[0] is tf.errors.CancelledError:
        sys.settrace(None)
        signal.raise_signal(signal.SIGALRM)
    return overtake
if hvd.rank() == 0:
    signal.signal(signal.SIGALRM, late)
    when_waiting(signal.SIGALRM)
    sys.settrace(overtake)
    try: hvd.allreduce(1.0)
    except Late: print("late", flush=True)
    mark()
else:
    await_mark()
    hvd.allreduce(1.0)
hvd.allreduce(2.0)
gc.collect()
print([each() for each in overtaken], flush=True)
""")
    assert sorted(ended.stdout.splitlines()) == ["[None, None]", "[]", "late"], ended.stdout + ended.stderr
    assert ended.returncode == 0


# A callback fails twice because there is no memory.
SCARCE = """
#include <dlfcn.h>
int anello_named_when_done(void *operation, void *callback, void *context) {
  static int calls;
  if (calls++ < 2) return 1;
  void *library = dlopen("libanello.so", RTLD_NOW | RTLD_NOLOAD);
  return ((int (*)(void *, void *, void *))dlsym(library, "anello_named_when_done"))(operation, callback, context);
}
"""


def test_an_interrupted_call_frees_its_tensors_later_also_after_memory_was_scarce(tmp_path):
    (tmp_path / "scarce.c").write_text(SCARCE)
    subprocess.run(["cc", "-shared", "-fPIC", tmp_path / "scarce.c", "-o", tmp_path / "scarce.so"], check=True)
    ended = job("""
import gc
class Late(Exception): pass
def late(*_): raise Late("too late")
def sum_up(): hvd.allreduce(tf.ones([32 * mebi]))
def resident(): return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
mebi = 1 << 20
sum_up()
before = resident()
if hvd.rank() == 0:
    signal.signal(signal.SIGALRM, late)
    sent = tf.ones([32 * mebi])
    when_waiting(signal.SIGALRM)
    try: hvd.allreduce(sent)
    except Late as error: print(error, flush=True)
    del sent
    mark()
else:
    await_mark()
    sum_up()
hvd.allreduce(1.0)
gc.collect()
sum_up()  # TensorFlow keeps what it has freed for the next tensors
if hvd.rank() == 0:
    print((resident() - before) // (64 * mebi), flush=True)
""", LD_PRELOAD=str(tmp_path / "scarce.so"))
    assert ended.stdout == "too late\n0\n" and ended.returncode == 0, ended.stdout + ended.stderr


def test_handlers_of_signals_run_while_an_eager_call_waits():
    ended = job("""
signal.signal(signal.SIGUSR1, lambda *_: mark())
if hvd.rank() == 0: when_waiting(signal.SIGUSR1)
else: await_mark()  # which no rank would end if handlers did not run before the call returns
print(hvd.allreduce(1.0).numpy(), flush=True)
""")
    assert ended.stdout == "1.0\n1.0\n" and ended.returncode == 0, ended.stdout + ended.stderr


def test_ctrl_c_interrupts_an_eager_call():
    ended = job("""
if hvd.rank() == 0:
    when_waiting(signal.SIGINT)
    try: hvd.allreduce(tf.ones([3]), name="loss")
    except KeyboardInterrupt: print(time.time() - stamps[0] < 0.25, flush=True)
    mark()
    hvd.allreduce(tf.ones([3]), name="done")
else:
    await_mark()
    hvd.allreduce(tf.ones([3]), name="loss")
    hvd.allreduce(tf.ones([3]), name="done")
""")
    assert ended.stdout == "True\n" and ended.returncode == 0, ended.stdout + ended.stderr


def test_an_operation_before_init_says_what_to_do():
    ended = subprocess.run([sys.executable, "-c", BEGIN.replace("hvd.init()", "") + """
for call in (lambda: hvd.allreduce(1.0), lambda: hvd.rank_op(), tf.function(lambda: hvd.broadcast(1.0, 0))):
    try: call()
    except Exception as error: print("hvd.init()" in str(error))
"""], capture_output=True, text=True, timeout=300)
    assert ended.stdout == "True\n" * 3, ended.stdout + ended.stderr
