"""Worlds of anello.tensorflow that end badly, and Ctrl-C."""
import os
import signal
import subprocess
import sys

PROGRAM = os.environ["ANELLO_PROGRAM"]
BEGIN = """
import os, signal, sys, threading, time
import tensorflow as tf
import anello.tensorflow as hvd
hvd.init()
"""


def job(script, ranks=2):
    """Runs ranks of a script, and returns what they print."""
    return subprocess.run([PROGRAM, "run", "-n", str(ranks), "--no-prefix", "--", sys.executable, "-u", "-c",
                           BEGIN + script], capture_output=True, text=True, timeout=300)


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


def test_ctrl_c_interrupts_an_eager_call():
    ended = job("""
def interrupt():
    time.sleep(0.5)
    stamps.append(time.time())
    os.kill(os.getpid(), signal.SIGINT)
stamps = []
if hvd.rank() == 0:
    threading.Thread(target=interrupt).start()
    try: hvd.allreduce(tf.ones([3]), name="loss")
    except KeyboardInterrupt: print(time.time() - stamps[0] < 0.25, flush=True)
    hvd.allreduce(tf.ones([3]), name="done")
else:
    time.sleep(1.5)
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
