"""Every verb of anello.tensorflow, eager and in functions, with its gradient."""
import resource

import numpy
import pytest
import tensorflow as tf

import anello.tensorflow as hvd

pytestmark = pytest.mark.usefixtures("horovod_for_tensorflow")
FLOATS = (tf.float16, tf.bfloat16, tf.float32, tf.float64)
TYPES = FLOATS + (tf.int8, tf.uint8, tf.int16, tf.uint16, tf.int32, tf.uint32, tf.int64, tf.uint64)


@pytest.fixture(params=["eager", "function"])
def run(request):
    """Calls a function directly, or as a function of TensorFlow."""
    return lambda call, *given: (call if request.param == "eager" else tf.function(call))(*given)


def same(made, expected):
    numpy.testing.assert_allclose(numpy.asarray(tf.cast(made, tf.float64)), expected)


def gradient(run, call, given):
    """The gradient of the sum of call(given), with the factor rank + 1."""

    def of(tensor):
        with tf.GradientTape() as tape:
            tape.watch(tensor)
            total = tf.reduce_sum(call(tensor)) * tf.cast(hvd.rank() + 1, tensor.dtype)
        return tape.gradient(total, tensor)

    return run(of, given)


def mean_of_counts():
    return (hvd.size() + 1) / 2


@pytest.mark.parametrize("op, expected", [
    (hvd.Sum, lambda n: n * (n + 1) // 2), (hvd.Average, lambda n: (n + 1) / 2), (hvd.Min, lambda n: 1),
    (hvd.Max, lambda n: n), (hvd.Product, lambda n: 2 if n == 2 else 6)])
def test_allreduce_of_all_types(run, op, expected):
    given = [tf.cast(tf.fill([2, 3], hvd.rank() + 1), dtype) for dtype in TYPES]
    made = run(lambda *tensors: hvd.grouped_allreduce(tensors, op=op), *given)
    for each, dtype in zip(made, TYPES):
        assert each.dtype == dtype and each.shape == (2, 3)
        same(each, numpy.full((2, 3), expected(hvd.size()) if dtype in FLOATS else int(expected(hvd.size()))))


def test_allreduce_takes_scalars_numbers_variables_and_arrays(run):
    made = run(lambda tensor: (hvd.allreduce(tensor, average=False), hvd.allreduce(2.0), hvd.allreduce(numpy.ones(3))),
               tf.constant(float(hvd.rank())))
    same(made[0], sum(range(hvd.size())))
    same(made[1], 2)
    same(made[2], [1, 1, 1])
    assert made[0].shape == ()
    variable = tf.Variable([hvd.rank(), 1])
    same(run(lambda: hvd.allreduce(variable, op=hvd.Max)), [hvd.size() - 1, 1])


def test_a_function_sends_tensors_that_were_made_outside_of_it():
    first, second = tf.constant([1.0, 2.0]), tf.constant(3.0)
    made = tf.function(lambda: (hvd.allreduce(first, op=hvd.Sum), hvd.broadcast(second, 0),
                                hvd.allreduce(second, op=hvd.Sum)))()
    assert [each.numpy().tolist() for each in made] == [[hvd.size(), 2.0 * hvd.size()], 3.0, 3.0 * hvd.size()]


def test_factors(run):
    same(run(lambda tensor: hvd.allreduce(tensor, op=hvd.Sum, prescale_factor=0.5, postscale_factor=4), tf.ones([3])),
         [2.0 * hvd.size()] * 3)


def test_factors_have_64_bits(run):
    made = run(lambda tensor: hvd.allreduce(tensor, op=hvd.Sum, prescale_factor=1e-60, postscale_factor=2.0**24 + 1),
               tf.constant([1e60], tf.float64))
    numpy.testing.assert_allclose(made, [hvd.size() * (2.0**24 + 1)], 1e-14)


@pytest.mark.parametrize("op, factor", [(hvd.Sum, lambda n: n), (hvd.Average, lambda n: 1)])
def test_gradient_of_allreduce(run, op, factor):
    made = gradient(run, lambda tensor: hvd.allreduce(tensor, op=op), tf.ones([2, 2]))
    same(made, numpy.full((2, 2), mean_of_counts() * factor(hvd.size())))


@pytest.mark.parametrize("op", [hvd.Min, hvd.Max, hvd.Product])
def test_other_reductions_have_no_gradient(run, op):
    with pytest.raises(NotImplementedError, match=f"op=hvd.{op.name} has no gradient"):
        gradient(run, lambda tensor: hvd.allreduce(tensor, op=op), tf.ones([2]))
    made = gradient(run, lambda tensor: tensor * tf.stop_gradient(hvd.allreduce(tensor, op=op)), tf.ones([2]))
    same(made, [hvd.rank() + 1] * 2)


def test_gradient_of_an_allreduce_of_which_one_result_is_used(run):
    wide = tf.ones([2], tf.float64)
    made = gradient(run, lambda tensor: hvd.grouped_allreduce([tensor, wide], op=hvd.Average)[0], tf.ones([3]))
    same(made, [mean_of_counts()] * 3)


def test_allgather(run):
    given = [tf.fill([hvd.rank() + 1, 2], float(hvd.rank())), tf.constant([hvd.rank()], tf.int64), tf.zeros([0, 3])]
    rows, numbers, nothing = run(lambda *tensors: hvd.grouped_allgather(tensors), *given)
    same(rows, numpy.concatenate([numpy.full((rank + 1, 2), rank) for rank in range(hvd.size())]))
    same(numbers, range(hvd.size()))
    assert nothing.shape == (0, 3) and numbers.dtype == tf.int64


def test_gradient_of_allgather(run):
    given = tf.ones([hvd.rank() + 1, 2])
    same(gradient(run, hvd.allgather, given), numpy.full(given.shape, mean_of_counts()))


@pytest.mark.parametrize("root", [0, 1])
def test_broadcast(run, root):
    same(run(lambda tensor: hvd.broadcast(tensor, root), tf.fill([3], hvd.rank())), [root] * 3)
    made = gradient(run, lambda tensor: hvd.broadcast(tensor, root), tf.ones([3]))
    same(made, [mean_of_counts() * (hvd.rank() == root)] * 3)


def test_alltoall(run):
    """Each rank sends r + 1 rows to each rank r."""
    size, rank = hvd.size(), hvd.rank()
    splits = [each + 1 for each in range(size)]
    given = tf.fill([sum(splits), 2], float(rank))
    output, received = run(lambda tensor: hvd.alltoall(tensor, splits), given)
    same(output, numpy.repeat(numpy.arange(size), rank + 1)[:, None] * numpy.ones((1, 2)))
    same(received, [rank + 1] * size)
    same(run(hvd.alltoall, tf.range(size) + 10 * rank), [10 * each + rank for each in range(size)])
    made = gradient(run, lambda tensor: hvd.alltoall(tensor, splits)[0], given)
    same(made, numpy.repeat(numpy.arange(size) + 1, splits)[:, None] * numpy.ones((1, 2)))


def test_reducescatter(run):
    size, rank = hvd.size(), hvd.rank()
    given = tf.range(2.0 * size)
    same(run(lambda tensor: hvd.reducescatter(tensor, op=hvd.Sum), given), size * numpy.arange(2 * size)[2 * rank:][:2])
    both = run(lambda tensor: hvd.grouped_reducescatter([tensor, tf.cast(tensor, tf.int32)]), given)
    same(both[1], numpy.arange(2 * size)[2 * rank:][:2])
    made = gradient(run, lambda tensor: hvd.reducescatter(tensor, op=hvd.Sum, prescale_factor=0.5), given)
    same(made, numpy.repeat(numpy.arange(size) + 1, 2) * size / 2)


def test_lists_may_be_iterators(run):
    given = [tf.ones([2]), tf.constant([hvd.rank()])]
    first, second = run(lambda *tensors: hvd.grouped_allreduce(iter(tensors), op=hvd.Sum), *given)
    same(first, [hvd.size()] * 2)
    same(second, [sum(range(hvd.size()))])


@pytest.mark.parametrize("given, made", [(tf.uint8, tf.float32), (tf.int32, tf.float64)])
def test_averages_of_integers_of_indexed_slices_are_quotients(run, given, made):
    average = run(lambda: hvd.allreduce(tf.IndexedSlices(tf.constant([3], given), tf.constant([0]),
                                                         tf.constant([3]))).values)
    assert average.dtype == made
    same(average, numpy.full(hvd.size(), 3 / hvd.size(), made.as_numpy_dtype))


def test_indexed_slices(run):
    """Row r of the result is rank r's row."""
    size, rank = hvd.size(), hvd.rank()

    def reduced(values):
        slices = tf.IndexedSlices(values, tf.constant([rank]), tf.constant([size, 2]))
        made, dense = hvd.grouped_allreduce([slices, tf.ones([2])], op=hvd.Sum)
        return tf.convert_to_tensor(made), dense, tf.convert_to_tensor(hvd.allreduce(slices))

    total, dense, average = run(reduced, tf.ones([1, 2]) * (rank + 1))
    same(total, numpy.repeat(numpy.arange(size) + 1, 2).reshape(size, 2))
    same(average, total / size)
    same(dense, [size] * 2)


@pytest.mark.parametrize("compression", [hvd.Compression.fp16, hvd.Compression.bf16])
def test_compression(run, compression):
    """Only the inputs are rounded, such as 1/3. The sums are not rounded again."""
    given = tf.constant([1 / 3, 2.0])
    made = run(lambda tensor: hvd.allreduce(tensor, compression=compression), given)
    assert made.dtype == tf.float32
    rounded = tf.cast(tf.cast(given, compression.type), tf.float32)
    same(made, rounded)
    numbers, halves = run(lambda: hvd.grouped_allreduce([tf.constant([3]), tf.ones([2], tf.float16)], op=hvd.Sum,
                                                        compression=compression))
    same(numbers, [3 * hvd.size()])
    assert numbers.dtype == tf.int32 and halves.dtype == tf.float16
    same(run(lambda: hvd.reducescatter(tf.ones([hvd.size()]), op=hvd.Sum, compression=compression)), [hvd.size()])


def test_a_list_of_ranks_is_no_process_set(run):
    for call in (lambda: hvd.allreduce(tf.ones([1]), process_set=[0, 1]),
                 lambda: hvd.alltoall(tf.ones([1]), process_set=[0, 1]),
                 lambda: hvd.DistributedGradientTape(tf.GradientTape(), process_set=[0, 1])):
        with pytest.raises(TypeError, match="process_set must be a ProcessSet"):
            run(call)


def test_operations_of_process_sets(run):
    one = hvd.add_process_set([1])
    some = hvd.add_process_set([0, hvd.size() - 1]) if hvd.size() > 2 else hvd.global_process_set
    try:
        if some.included():
            same(run(lambda: hvd.allreduce(tf.constant(float(hvd.rank())), process_set=some)), (hvd.size() - 1) / 2)
        if one.included():
            same(run(lambda: hvd.allgather(tf.constant([7.0]), process_set=one)), [7])
        else:
            with pytest.raises(tf.errors.InvalidArgumentError, match="process set"):
                run(lambda: hvd.allreduce(tf.ones([1]), process_set=one))
        numbers = run(lambda: (hvd.size_op(one.process_set_id), hvd.process_set_included_op(one.process_set_id)))
        assert [int(each) for each in numbers] == [1, int(hvd.rank() == 1)]
        assert hvd.mpi_ops._basics._get_process_set_ids_and_ranks()[one.process_set_id] == [1]
    finally:
        hvd.remove_process_set(one)
        if some is not hvd.global_process_set:
            hvd.remove_process_set(some)
    with pytest.raises(ValueError, match="not registered"):
        run(lambda: hvd.allreduce(tf.ones([1]), process_set=one))


def test_a_function_of_a_set_that_is_gone_does_not_run_on_the_next_one():
    call = tf.function(lambda: hvd.allreduce(tf.ones([1]), process_set=made))
    made = gone = hvd.add_process_set([1])
    if made.included():
        same(call(), [1])
    hvd.remove_process_set(made)
    made = hvd.add_process_set([0])
    try:
        assert made.process_set_id == 1 and gone.process_set_id is None
        if hvd.rank() == 1:
            with pytest.raises(tf.errors.FailedPreconditionError, match="if the set was removed"):
                call()
    finally:
        hvd.remove_process_set(made)


def test_an_id_set_by_hand_registers_no_set(run):
    made_up = hvd.ProcessSet([0])
    made_up.process_set_id = 10
    with pytest.raises(ValueError, match="not registered"):
        run(lambda: hvd.allreduce(tf.ones([1]), process_set=made_up))


def test_numbers_of_the_world(run):
    made = run(lambda: (hvd.rank_op(), hvd.size_op(), hvd.local_rank_op(), hvd.local_size_op(), hvd.join()))
    assert [int(each) for each in made[:4]] == [hvd.rank(), hvd.size(), hvd.local_rank(), hvd.local_size()]
    assert 0 <= int(made[4]) < hvd.size()


def test_a_barrier_in_a_function():

    @tf.function
    def wait():
        hvd.barrier()
        return tf.constant(1)

    assert int(wait()) == 1
    hvd.barrier()


def test_a_difference_is_named_on_all_ranks_and_the_world_goes_on(run):
    with pytest.raises(tf.errors.FailedPreconditionError, match=r"rank 0 has shape \(2,\), rank 1 has \(3,\)"):
        run(lambda: hvd.allreduce(tf.ones([2 + (hvd.rank() == 1)]), name="different"))
    same(run(lambda: hvd.allreduce(tf.ones([2]), name="different")), [1, 1])


@pytest.mark.parametrize("right, wrong, why", [
    (lambda: hvd.broadcast(tf.ones([3]), 0, name="given"), lambda: hvd.broadcast(tf.ones([3]), 99, name="given"),
     "rank 99"),
    (lambda: hvd.alltoall(tf.ones([6]), name="given"), lambda: hvd.alltoall(tf.ones([6]), [6], name="given"),
     "1 splits for [23] ranks")])
def test_what_one_rank_refuses_in_a_function_fails_on_the_others(right, wrong, why):
    if hvd.rank() == 1:
        with pytest.raises(tf.errors.InvalidArgumentError, match=why):
            tf.function(wrong)()
    else:
        with pytest.raises(tf.errors.FailedPreconditionError, match=f"rank 1 cannot take part: .*{why}"):
            tf.function(right)()
    tf.function(right)()


def test_errors_of_eager_calls_are_those_of_horovod_too():
    with pytest.raises(hvd.HorovodInternalError) as caught:
        hvd.allreduce(tf.ones([2], tf.int32 if hvd.rank() else tf.float32))
    assert isinstance(caught.value, tf.errors.FailedPreconditionError) and caught.value.code == "mismatch"
    with pytest.raises(tf.errors.InvalidArgumentError, match="cannot be divided") as caught:
        hvd.alltoall(tf.ones([hvd.size() + 1]))
    assert isinstance(caught.value, ValueError)


def test_what_is_refused():
    with pytest.raises(NotImplementedError, match="Adasum"):
        hvd.allreduce(tf.ones([1]), op=hvd.Adasum)
    with pytest.raises(TypeError, match="complex64"):
        hvd.allreduce(tf.complex(1.0, 1.0))
    with pytest.raises(NotImplementedError, match="jit_compile=False"):
        tf.function(lambda: hvd.allreduce(tf.ones([1])), jit_compile=True)()


def test_objects():
    assert hvd.broadcast_object({"rank": hvd.rank()}, root_rank=1) == {"rank": 1}
    assert hvd.broadcast_object_fn(root_rank=1)(hvd.rank()) == 1
    assert hvd.allgather_object(hvd.rank()) == list(range(hvd.size()))


@pytest.mark.parametrize("right, wrong", [
    (lambda n: hvd.allreduce(tf.ones([3]), name=n), lambda n: hvd.allreduce(tf.complex(1.0, 1.0), name=n)),
    (lambda n: hvd.allgather(tf.ones([3]), name=n), lambda n: hvd.allgather(tf.constant("a text"), name=n)),
    (lambda n: hvd.broadcast(tf.ones([3]), 0, name=n), lambda n: hvd.broadcast(tf.ones([3]), 99, name=n)),
    (lambda n: hvd.alltoall(tf.ones([6]), name=n), lambda n: hvd.alltoall(tf.ones([6]), [9], name=n)),
    (lambda n: hvd.reducescatter(tf.ones([6]), name=n), lambda n: hvd.reducescatter(tf.constant("a text"), name=n))])
def test_what_one_rank_refuses_fails_on_the_others_with_its_reason(right, wrong):
    for name in (None, "refused"):
        if hvd.rank() == 1:
            with pytest.raises((TypeError, ValueError, tf.errors.InvalidArgumentError)):
                wrong(name)
        else:
            with pytest.raises(tf.errors.FailedPreconditionError, match="rank 1 cannot take part: [A-Za-z]"):
                right(name)
        right(name)


def test_factors_may_change_with_every_call():
    def memory():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # KiB

    hvd.allreduce(tf.ones([3]), prescale_factor=0.999)
    before = memory()
    for k in range(1000):
        made = hvd.allreduce(tf.ones([3]), op=hvd.Sum, prescale_factor=1 + k / 1000, postscale_factor=2.0)
    numpy.testing.assert_allclose(made, [2 * 1.999 * hvd.size()] * 3, rtol=1e-6)
    assert memory() - before < 16 << 10, "TensorFlow keeps 40 KiB for each value of an attribute"


def test_gradients_have_the_factors():
    value = tf.constant([1.0, 2.0])

    def gradient():
        with tf.GradientTape() as tape:
            tape.watch(value)
            made = hvd.allreduce(value, op=hvd.Sum, prescale_factor=3.0, postscale_factor=0.5)
        return tape.gradient(made, value)

    numpy.testing.assert_array_equal(gradient(), [1.5 * hvd.size()] * 2)
    numpy.testing.assert_array_equal(tf.function(gradient)(), [1.5 * hvd.size()] * 2)


def test_wrong_arguments_of_eager_calls_are_named():
    with pytest.raises(ValueError, match=r"root_rank: rank 99 is not one of the ranks \["):
        hvd.broadcast(tf.ones([1]), 99)
    with pytest.raises(TypeError, match="prescale_factor must be a number, not '2'"):
        hvd.allreduce(tf.ones([1]), prescale_factor="2")
    with pytest.raises(hvd.HorovodInternalError, match="not registered|no process set|has not been"):
        hvd.allreduce(tf.ones([1]), process_set=hvd.ProcessSet([0]))
    hvd.barrier()


def test_asynchronous_execution_raises_at_the_call():
    tf.config.experimental.set_synchronous_execution(False)
    try:
        with pytest.raises(hvd.HorovodInternalError, match="has shape"):
            hvd.allreduce(tf.ones([1 + hvd.rank()]))
        numpy.testing.assert_array_equal(hvd.allreduce(tf.ones([2]), op=hvd.Sum) + 1, [hvd.size() + 1.0] * 2)
    finally:
        tf.config.experimental.set_synchronous_execution(True)
