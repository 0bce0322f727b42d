"""Programs that begin with Model.compile() and Model.fit(), and a rank that dies during the training."""
import os
import re
import subprocess
import sys

FIRST_COMPILE = """
import tensorflow as tf
import anello.tensorflow as hvd
class Gpu: device_type = "GPU"
tf.config.list_physical_devices = lambda *_: [Gpu()]
hvd.init()
model = tf.keras.Sequential([tf.keras.layers.InputLayer((3,)), tf.keras.layers.Dense(1)])
model.compile(optimizer=hvd.DistributedOptimizer(tf.keras.optimizers.Adam()), loss="mse")
print(bool(model.jit_compile))
"""
SCRIPT = """
import os, signal, time
import numpy
import tensorflow as tf
import anello.tensorflow.keras as hvd
hvd.init()
model = tf.keras.Sequential([tf.keras.layers.InputLayer((3,)), tf.keras.layers.Dense(1)])
model.compile(optimizer=hvd.DistributedOptimizer(tf.keras.optimizers.Adam()), loss="mse")

class Dies(tf.keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        self.last = time.time()
        if hvd.rank() == 1 and batch == 7:
            os.kill(os.getpid(), signal.SIGKILL)

dies = Dies()
try: model.fit(numpy.ones((40, 3)), numpy.ones((40, 1)), batch_size=4, verbose=0, callbacks=[dies])
except tf.errors.InternalError as error: print(round(time.time() - dies.last, 1), "s:", error.message, flush=True)
"""


def test_the_error_of_fit_names_the_rank():
    ended = subprocess.run([os.environ["ANELLO_PROGRAM"], "run", "-n", "2", "--no-prefix", "--", sys.executable, "-u",
                            "-c", SCRIPT], capture_output=True, text=True, timeout=300)
    said = re.search(r"^([\d.]+) s: (.*)", ended.stdout, re.DOTALL)
    assert said and float(said[1]) < 10 and "rank 1" in said[2], ended.stdout + ended.stderr


def test_the_first_compile_does_not_choose_xla_for_a_gpu():
    ended = subprocess.run([sys.executable, "-W", "ignore", "-c", FIRST_COMPILE], capture_output=True, text=True,
                           timeout=300)
    assert ended.stdout == "False\n", ended.stdout + ended.stderr
