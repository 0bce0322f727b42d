"""Custom loops whose ranks begin with different values: rank 0 warns if an eager loop has forgotten the broadcast."""
import warnings

import pytest
import tensorflow as tf

import anello.tensorflow as hvd

pytestmark = pytest.mark.usefixtures("horovod_for_tensorflow")


def made(seed):
    return [tf.Variable([1.0, 2.0], name="same"), tf.Variable([[float(seed)]], name="weight")]


def step_of(variables, **options):
    def step(batch):
        with tf.GradientTape() as tape:
            value = tf.reduce_sum(variables[0]) * variables[1][0, 0] * tf.reduce_sum(batch)
        tape = hvd.DistributedGradientTape(tape, **options)
        for each, gradient in zip(variables, tape.gradient(value, variables)):
            each.assign_sub(0.01 * gradient)

    return step


def numbers_of_warnings(train):
    """The number of warnings on each rank, in the order of the ranks."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        train()
    texts = [str(each.message) for each in caught if "the ranks train different variables" in str(each.message)]
    assert all("'weight:0'" in each and "hvd.broadcast_variables(" in each for each in texts), texts
    return hvd.allgather_object(len(texts))


def nobody():
    return [0] * hvd.size()


def rank_0_once():
    return [1] + [0] * (hvd.size() - 1)


def steps(step, count=4, before=lambda: None, between=lambda: None):
    def train():
        before()
        step(tf.ones(2))
        between()
        for _ in range(count - 1):
            step(tf.ones(2))

    return train


@pytest.mark.parametrize("options", [{}, {"op": hvd.Sum}], ids=["average", "sum"])
def test_rank_0_warns_once(options):
    assert numbers_of_warnings(steps(step_of(made(hvd.rank()), **options))) == rank_0_once()


def test_nobody_warns_where_ranks_begin_alike():
    assert numbers_of_warnings(steps(step_of(made(7)))) == nobody()


@pytest.mark.parametrize("when", ["before", "between"])
def test_nobody_warns_after_a_broadcast(when):
    variables = made(hvd.rank())
    broadcast = {when: lambda: hvd.broadcast_variables(variables, root_rank=0)}
    assert numbers_of_warnings(steps(step_of(variables), **broadcast)) == nobody()


def test_two_models_are_compared_each():
    first, second = step_of(made(5)), step_of(made(hvd.rank()))
    assert numbers_of_warnings(lambda: [step(tf.ones(2)) for _ in range(3) for step in (first, second)]) == rank_0_once()


def test_local_variables_are_not_compared():
    variables = made(hvd.rank())

    def step(batch):
        with tf.GradientTape() as tape:
            value = tf.reduce_sum(variables[0]) * variables[1][0, 0] * tf.reduce_sum(batch)
        tape = hvd.DistributedGradientTape(tape)
        tape.register_local_source(variables[1])
        tape.gradient(value, variables)

    assert numbers_of_warnings(steps(step)) == nobody()


def test_a_function_compares_nothing_and_can_be_saved(tmp_path):
    class Module(tf.Module):
        def __init__(self):
            super().__init__()
            self.both = made(hvd.rank())
            self.step = tf.function(step_of(self.both), input_signature=[tf.TensorSpec([2])])

    module = Module()
    assert numbers_of_warnings(steps(module.step)) == nobody()
    tf.saved_model.save(module, str(tmp_path))
    again = tf.saved_model.load(str(tmp_path))
    assert [each.numpy().tolist() for each in again.both] == [each.numpy().tolist() for each in module.both]


def test_ever_new_lists_of_variables_are_not_counted_for_ever():
    first, others = tf.Variable(1.0), [tf.Variable(float(k)) for k in range(40)]
    for each in others:
        with tf.GradientTape() as tape:
            value = first * each
        hvd.DistributedGradientTape(tape).gradient(value, [first, each])
    assert len(vars(first)["_anello_calls"]) == 16


def test_a_new_world_compares_again():
    step = step_of(made(hvd.rank()))
    assert numbers_of_warnings(steps(step)) == rank_0_once()
    hvd.shutdown()
    hvd.init()
    assert numbers_of_warnings(steps(step)) == rank_0_once()
    assert numbers_of_warnings(steps(step)) == nobody()
