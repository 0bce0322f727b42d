"""Keras in elastic jobs: fit() goes on with its state when a rank is killed, and when a rank joins later."""
import importlib
import json
import re
import sys

import elastic_jobs
import numpy
import pytest

EPOCHS = 5
# All ranks train the same data, so that the result does not depend on their number. After the second epoch they commit
# again and again until the test makes the file.
SCRIPT = """
import json, os, sys, time
import numpy, tensorflow as tf
import anello.tensorflow.keras as hvd
hvd.init()
tf.keras.utils.set_random_seed(1)
model = tf.keras.Sequential([tf.keras.layers.InputLayer((3,)), tf.keras.layers.Dense(1)])
optimizer = tf.keras.optimizers.SGD(0.05, momentum=0.9)
model.compile(optimizer=OPTIMIZER, loss="mse")
data = numpy.random.RandomState(1).rand(32, 3)

def count():
    state.worlds += 1

class Waits(tf.keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        if state.epoch == 2:
            print(f"waits in world {state.worlds}: rank {hvd.rank()} of {hvd.size()}", flush=True)
            while hvd.size() > 1 and not hvd.allreduce(float(os.path.exists(sys.argv[1])), op=hvd.Max):
                state.commit()
                time.sleep(0.01)

state = hvd.elastic.KerasState(model, batch=0, epoch=0, worlds=1)
state.register_reset_callbacks([count])
callbacks = [hvd.elastic.UpdateEpochStateCallback(state), hvd.elastic.UpdateBatchStateCallback(state),
             hvd.elastic.CommitStateCallback(state), Waits()]

@hvd.elastic.run
def train(state):
    if state.epoch == 2:
        callbacks[-1].on_epoch_end(0)
    model.fit(data, data.sum(1), batch_size=8, epochs=%d - state.epoch, shuffle=False, callbacks=callbacks, verbose=0)

train(state)
print("result", json.dumps([state.epoch, [each.tolist() for each in model.get_weights()]]), flush=True)
""" % EPOCHS


def weights(process):
    assert process.wait() == 0, process.err()
    epoch, found = json.loads(re.search("result (.*)", process.out())[1])
    assert epoch == EPOCHS
    return numpy.concatenate([numpy.ravel(each) for each in found])


def test_fit_goes_on_with_its_state(tmp_path):
    go = tmp_path / "go"
    alone = elastic_jobs.Process(tmp_path / "alone", [sys.executable, "-c", SCRIPT.replace("OPTIMIZER", "optimizer"), go], {})
    undisturbed = weights(alone)
    alone.end()
    with elastic_jobs.job(tmp_path, first=2) as running:
        running._environment["ANELLO_ELASTIC"] = "1"
        script = SCRIPT.replace("OPTIMIZER", "hvd.DistributedOptimizer(optimizer)")
        first, second = [running.start("-c", script, go) for _ in range(2)]
        first.says("waits in world 1")
        third = running.start("-c", script, go)
        third.says("waits in world 2: rank 2 of 3")
        victim, other = (first, second) if "world 1: rank 0" in first.out() else (second, first)
        victim.end()
        other.says("waits in world 3: rank 0 of 2")
        go.touch()
        for each in (other, third):
            numpy.testing.assert_allclose(weights(each), undisturbed, rtol=1e-4)


# The function is traced in a world of one rank, or in a world of two ranks. Each rank has different gradients.
GROWS = """
import sys, time, tensorflow as tf
import anello.tensorflow as hvd
from anello.tensorflow.keras import DistributedOptimizer
FIRST = %d
hvd.init()
weight, table, own = (tf.Variable(each) for each in ([0.0], [[0.0], [0.0]], [0.0]))
every = [weight, table, own]

def gradients(factor):
    with tf.GradientTape() as tape:
        loss = weight * factor + tf.nn.embedding_lookup(table, [0]) * factor + own
    return tape, loss

@tf.function
def step(factor):
    tape, loss = gradients(factor)
    %s

def values():
    return [float(tf.reshape(each, [-1])[0]) for each in every]

state = hvd.elastic.TensorFlowState(every, left=3)

@hvd.elastic.run
def train(state):
    print(f"world of {hvd.size()}", flush=True)
    while state.left:
        before = values()
        step(tf.constant(float(hvd.rank() + 1)))
        if hvd.size() > FIRST:
            print("moved", [round(a - b, 3) for a, b in zip(before, values())], flush=True)
            state.left -= 1
        state.commit()
        time.sleep(0.01)

train(state)
"""
TAPE = """tape = hvd.DistributedGradientTape(tape, scale_local_gradients=True)
    tape.register_local_source(own)
    for variable, gradient in zip(every, tape.gradient(loss, every)):
        variable.assign_sub(tf.convert_to_tensor(gradient))
"""
OPTIMIZER = """optimizer.apply_gradients(zip(tape.gradient(loss, every), every))
optimizer = DistributedOptimizer(tf.keras.optimizers.SGD(1.0))
optimizer.build(every)
"""


@pytest.mark.parametrize("first, way, own", [(1, TAPE, 0.5), (2, OPTIMIZER, 1.0)], ids=["tape", "optimizer"])
def test_a_function_that_the_first_ranks_have_traced_works_when_another_comes(tmp_path, first, way, own):
    script = GROWS % (first, way)
    with elastic_jobs.job(tmp_path, first=first) as running:
        running._environment["ANELLO_ELASTIC"] = "1"
        ranks = [running.start("-c", script) for _ in range(first)]
        for each in ranks:
            each.says(f"world of {first}")
        size = first + 1
        mean = sum(range(1, size + 1)) / size
        for each in [*ranks, running.start("-c", script)]:
            assert each.wait() == 0, each.err()
            moved = [line for line in each.out().splitlines() if "moved" in line]
            assert moved == [f"moved {[round(mean, 3), round(mean, 3), own]}"] * 3, each.err()


@pytest.mark.parametrize("module", ["anello.tensorflow", "anello.tensorflow.keras", "anello.keras"])
def test_each_module_has_the_exceptions_of_elastic_jobs(module):
    hvd = importlib.import_module(module)
    assert hvd.exceptions.HorovodInternalError is hvd.HorovodInternalError
    assert issubclass(hvd.exceptions.HostsUpdatedInterrupt, RuntimeError)
    assert "exceptions" in hvd.__all__
