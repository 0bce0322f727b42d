"""Functions whose operations do not start alike on all ranks: some ranks start them in another order, later or more
often."""
import gc
import threading
import time
import weakref

import numpy
import pytest
import tensorflow as tf

import anello.tensorflow as hvd

pytestmark = pytest.mark.usefixtures("horovod_for_tensorflow")
MANY = 24
LATE_S = 0.6


def is_late():
    return hvd.rank() == 1


def meet():
    """Ranks go on at the same time, after the slowest rank has compiled its function."""
    hvd.barrier()


def in_order(names):
    return list(reversed(names)) if hvd.rank() % 2 else list(names)


def test_operations_of_a_function_start_in_any_order():
    names = [f"op{k}" for k in range(MANY)]

    @tf.function
    def step(value):
        made = {name: hvd.allreduce(value + float(name[2:]), op=hvd.Sum, name=name) for name in in_order(names)}
        return [made[name] for name in names]

    for each, expected in zip(step(tf.zeros([5])), range(MANY)):
        numpy.testing.assert_allclose(each, [expected * hvd.size()] * 5)


def test_operations_of_constants_are_not_run_while_a_graph_is_prepared():
    """Otherwise TensorFlow would run an operation of constants only once for all calls, perhaps in different orders on
    the ranks."""

    @tf.function
    def step():
        made = {name: hvd.allreduce(tf.constant([3.0]), op=hvd.Sum, name=name) for name in in_order(["a", "b"])}
        return made["a"], made["b"], hvd.broadcast(tf.constant([1.0]), 0), hvd.allgather(tf.constant([2.0]))

    step()
    before = hvd.world().counters()["operations"]
    first, second, third, fourth = step()
    assert hvd.world().counters()["operations"] - before in (3, 4)  # sums that wait together are carried out as one list
    assert [float(each[0]) for each in (first, second, third)] == [3 * hvd.size(), 3 * hvd.size(), 1]
    numpy.testing.assert_array_equal(fourth, [2] * hvd.size())


def test_equal_operations_stay_two():
    made = tf.function(lambda value: [hvd.allreduce(value, op=hvd.Sum, name=name) for name in ("x", "y")])(tf.ones([2]))
    numpy.testing.assert_array_equal(made, [[hvd.size()] * 2] * 2)


def test_threads_wait_in_any_order():
    made = {}

    def reduce(name):
        made[name] = float(hvd.allreduce(float(len(name)), name=name))

    threads = [threading.Thread(target=reduce, args=(name,)) for name in in_order(["a", "bb", "ccc"])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert made == {"a": 1, "bb": 2, "ccc": 3}


def test_iterations_of_a_loop_go_on_at_once():

    @tf.function
    def total():
        _, made = tf.while_loop(
            lambda k, _: k < 12,
            lambda k, made: (k + 1, made.write(k, hvd.allreduce(tf.cast(k, tf.float32), op=hvd.Sum))),
            (0, tf.TensorArray(tf.float32, 12)), parallel_iterations=6)
        return made.stack()

    numpy.testing.assert_array_equal(total(), numpy.arange(12) * hvd.size())


def test_one_rank_traces_a_function_more_often():
    step = tf.function(lambda value: hvd.allreduce(tf.reduce_sum(value), op=hvd.Sum), reduce_retracing=False)
    for k in range(4):
        assert float(step(tf.ones([k + 1 if hvd.rank() == 0 else 1]))) == hvd.size() + k
    assert step.experimental_get_tracing_count() == (4 if hvd.rank() == 0 else 1)


def test_a_function_is_called_twice_by_another():
    inner = tf.function(lambda value: hvd.allreduce(value, op=hvd.Sum))
    outer = tf.function(lambda value: inner(value) + inner(2 * value))
    assert float(outer(1.0)) == 3 * hvd.size()


def test_nothing_keeps_a_function_that_is_gone():
    step = tf.function(lambda value: hvd.allreduce(value, op=hvd.Sum))
    assert float(step(1.0)) == hvd.size()
    graph = weakref.ref(step.get_concrete_function(1.0).graph)
    del step
    gc.collect()
    assert graph() is None


def test_one_node_waits_for_the_results_of_a_list():
    """The thread that ends the operation wakes a thread of TensorFlow's for each node that waits."""
    tensors = [tf.ones([k]) for k in range(1, 4)]
    step = tf.function(lambda: [2 * each for each in hvd.grouped_allreduce(tensors, op=hvd.Sum)])
    for each in step():
        numpy.testing.assert_array_equal(each, [2 * hvd.size()] * len(each))
    (node,) = [each for each in step.get_concrete_function().graph.get_operations() if each.type == "AnelloAllreduce"]
    waiting = [reader for made in node.outputs for reader in made.consumers()]
    assert len(waiting) == len(tensors) and len(set(waiting)) == 1


def test_results_of_lists_are_named_after_them():
    """Operations without a name are named after their tensors. The ranks make the lists in different orders."""

    @tf.function
    def step(value):
        lists = {name: hvd.grouped_allreduce([value * factor, value], op=hvd.Sum, name=name)
                 for name, factor in in_order([("a", 1.0), ("b", 10.0)])}
        again = {name: hvd.allreduce(lists[name][0], op=hvd.Sum) for name in in_order(["a", "b"])}
        return again["a"], again["b"]

    numpy.testing.assert_array_equal(step(tf.ones([])), [hvd.size() ** 2, 10 * hvd.size() ** 2])


def test_in_a_branch():
    step = tf.function(lambda value, reduces: tf.cond(reduces, lambda: hvd.allreduce(value, op=hvd.Sum), lambda: value))
    assert [float(step(1.0, tf.constant(reduces))) for reduces in (True, False)] == [hvd.size(), 1]


def test_a_late_rank_does_not_stop_what_needs_no_other_rank():
    @tf.function
    def step(value):
        reduced = hvd.allreduce(value)
        return reduced, tf.timestamp()

    step(tf.ones([3]))
    meet()
    began = time.time()
    if is_late():
        time.sleep(LATE_S)
    _, stamp = step(tf.ones([3]))
    if not is_late():
        assert float(stamp) - began < LATE_S / 2 and time.time() - began > LATE_S / 2


def test_a_late_rank_does_not_stop_a_backward_pass(monkeypatch):
    """Each gradient is a bucket.

    The last layer's bucket waits for the late rank while the first layer's gradient is computed.
    """
    monkeypatch.setenv("HOROVOD_FUSION_THRESHOLD", "0")
    weights = [tf.Variable(tf.ones([4, 4])) for _ in range(3)]
    reached = tf.Variable(tf.zeros([], tf.float64))

    @tf.custom_gradient
    def noted(value):
        def backward(gradient):
            with tf.control_dependencies([gradient]):
                stamp = reached.assign(tf.timestamp())
            with tf.control_dependencies([stamp]):
                return tf.identity(gradient)
        return value, backward

    @tf.function
    def step(given):
        with tf.GradientTape() as tape:
            value = noted(given @ weights[0])
            for each in weights[1:]:
                value = value @ each
        return hvd.DistributedGradientTape(tape).gradient(value, weights)

    step(tf.ones([2, 4]))
    meet()
    began = time.time()
    if is_late():
        time.sleep(LATE_S)
    gradients = step(tf.ones([2, 4]))
    numpy.testing.assert_array_equal(gradients[2], numpy.full((4, 4), 32))
    if not is_late():
        assert float(reached) - began < LATE_S / 2 and time.time() - began > LATE_S / 2
