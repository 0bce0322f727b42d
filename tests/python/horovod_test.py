"""anello.torch: Horovod's interface, on every rank of a world."""
import inspect
import os
import subprocess
import sys
import threading
import types
import warnings

import numpy
import pytest
import torch

import anello
import anello.torch as hvd
from anello.horovod import settings


@pytest.fixture(autouse=True)
def initialised(horovod):
    horovod.init()


def own_rank():
    return int(os.environ["HOROVOD_RANK"])


def world_size():
    return int(os.environ["HOROVOD_SIZE"])


def each_rank():
    return range(hvd.size())


def test_who_and_how_many():
    assert (hvd.rank(), hvd.size()) == (int(os.environ["HOROVOD_RANK"]), int(os.environ["HOROVOD_SIZE"]))
    assert (hvd.local_rank(), hvd.local_size(), hvd.cross_rank(), hvd.cross_size()) == (hvd.rank(), hvd.size(), 0, 1)
    assert hvd.is_homogeneous() and hvd.gloo_built() and not hvd.mpi_built()


def test_every_public_name_is_exported_and_has_its_arguments():
    """From a package with types, type checkers accept only exported names."""
    public = {name for name, value in vars(hvd).items()
              if not name.startswith("_") and not isinstance(value, types.ModuleType)}
    assert set(hvd.__all__) == public | {"elastic", "exceptions"}
    for name in ("allreduce_", "grouped_allreduce_"):
        arguments = list(inspect.signature(getattr(hvd, name)).parameters)
        started = getattr(hvd, name.replace("reduce_", "reduce_async_"))
        assert arguments + ["waits"] == list(inspect.signature(started).parameters)


def test_names_can_be_imported_from_mpi_ops():
    from anello.torch.mpi_ops import Average, allreduce_async_, rank, synchronize
    mine = torch.full((2,), float(rank()))
    synchronize(allreduce_async_(mine, op=Average))
    assert mine.tolist() == [(hvd.size() - 1) / 2] * 2


def test_a_world_ends_and_another_begins():
    hvd.shutdown()
    assert not hvd.is_initialized()
    for call in (hvd.rank, lambda: hvd.allreduce(torch.ones(1)), hvd.barrier):
        with pytest.raises(ValueError, match="not been initialized"):
            call()
    hvd.init()
    assert hvd.allreduce(torch.ones(1), op=hvd.Sum).item() == hvd.size()


def test_rank_0_warns_of_a_misspelt_variable_of_horovod(monkeypatch):
    hvd.shutdown()
    for name in ("HOROVOD_FUSION_TRESHOLD", "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", "HOROVOD_WITH_PYTORCH"):
        monkeypatch.setenv(name, "1")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        hvd.init()
    expected = ["HOROVOD_FUSION_TRESHOLD is not a variable of Horovod and is ignored; HOROVOD_FUSION_THRESHOLD is one"]
    assert [str(each.message) for each in caught] == (expected if hvd.rank() == 0 else [])


@pytest.mark.parametrize("value", ["abc", "-1", "inf"])
@pytest.mark.parametrize("name", ["HOROVOD_FUSION_THRESHOLD", "HOROVOD_STALL_CHECK_TIME_SECONDS"])
def test_a_variable_that_is_no_suitable_number_is_named(monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match=f"{name} must be a number of at least 0, not '{value}'"):
        settings.from_horovod()
        settings.bucket_bytes()


def test_the_log_level_is_one_of_horovods(monkeypatch):
    monkeypatch.delenv("ANELLO_LOG", raising=False)
    for value, expected in (("TRACE", ["ANELLO_LOG=debug"]), ("warning", ["ANELLO_LOG=warning"]), ("", [])):
        monkeypatch.setenv("HOROVOD_LOG_LEVEL", value)
        assert settings.from_horovod() == expected
    monkeypatch.setenv("HOROVOD_LOG_LEVEL", "chatty")
    with pytest.raises(ValueError, match="HOROVOD_LOG_LEVEL must be one of trace, debug, .*, not 'chatty'"):
        settings.from_horovod()


@pytest.mark.parametrize("value, expected", [("0", 0), ("1024", 1024), ("", 4 << 20)])
def test_the_threshold_of_fusion_is_a_number_of_bytes(monkeypatch, value, expected):
    monkeypatch.setenv("HOROVOD_FUSION_THRESHOLD", value)
    assert settings.bucket_bytes() == expected


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int32,
                                   torch.int64, torch.uint8])
def test_allreduce_of_each_type(dtype):
    given = torch.full((3, 2), hvd.rank() + 1).to(dtype)
    assert (hvd.allreduce(given, op=hvd.Sum) == sum(r + 1 for r in each_rank())).all()
    assert (hvd.allreduce(given, op=hvd.Max) == hvd.size()).all()
    assert (given == hvd.rank() + 1).all()


def test_tensors_with_strides_are_reduced_in_place():
    whole = torch.zeros(4, 4)
    hvd.allreduce_(whole.t()[1:3].add_(1), op=hvd.Sum)
    part = whole[:, 1]
    part.fill_(hvd.rank())
    hvd.broadcast_(part, root_rank=1)
    assert (whole[:, 1] == 1).all() and (whole[:, 0] == 0).all()


def test_a_name_may_be_used_by_several_verbs_and_again():
    for _ in range(3):
        hvd.allreduce(torch.ones(1), name="x")
        hvd.broadcast(torch.ones(1), 0, name="x")
        hvd.allgather(torch.ones(1), name="x")


def test_orders_may_differ():
    names = ["a", "b", "c"] if hvd.rank() == 0 else ["c", "a", "b"]
    handles = {name: hvd.allreduce_async(torch.tensor([float(ord(name))]), name=name) for name in names}
    assert all(hvd.synchronize(handles[name]).item() == ord(name) for name in "abc")


def test_differences_raise_on_all_ranks_and_the_world_goes_on():
    with pytest.raises(hvd.HorovodInternalError, match="rank"):
        hvd.allreduce(torch.ones(2 + hvd.rank()))
    with pytest.raises(hvd.HorovodInternalError):
        hvd.broadcast(torch.ones(2), hvd.rank())
    assert hvd.allreduce(torch.ones(1), op=hvd.Sum).item() == hvd.size()


@pytest.mark.parametrize("call", [
    lambda: hvd.allreduce(torch.ones(1), op=hvd.Adasum), lambda: hvd.allreduce(torch.ones(1), average=True, op=hvd.Sum),
    lambda: hvd.allreduce([1.0]), lambda: hvd.alltoall(torch.ones(3), torch.ones(hvd.size())),
    lambda: hvd.reducescatter(torch.tensor(1.0)), lambda: hvd.broadcast(torch.ones(1), 99),
    lambda: hvd.allreduce(torch.ones(2).to_sparse()), lambda: hvd.allreduce(torch.ones(1), compression="fp16"),
    lambda: hvd.reducescatter(torch.ones(hvd.size()), compression="fp16")])
def test_wrong_arguments_are_refused_before_anything_is_sent(call):
    with pytest.raises((ValueError, NotImplementedError)):
        call()


@pytest.mark.parametrize("verb", [hvd.allreduce, hvd.allreduce_, hvd.reducescatter])
def test_a_factor_that_is_no_number_is_named_as_it_was_given(verb):
    with pytest.raises(TypeError, match="prescale_factor must be a number, not None"):
        verb(torch.ones(3), prescale_factor=None)
    with pytest.raises(TypeError, match="postscale_factor must be a number, not tensor"):
        verb(torch.ones(3), postscale_factor=torch.ones(2))


@pytest.mark.parametrize("kind", [numpy.int8, numpy.uint16, numpy.uint32, numpy.uint64, numpy.float16, int, bool,
                                  float])
def test_numbers_keep_their_type(kind):
    most = kind(2**64 - 1) if kind is numpy.uint64 else kind(1)
    for made in (hvd.allreduce(most, op=hvd.Max), hvd.broadcast(most if hvd.rank() == 0 else kind(0), 0)):
        assert made == most and type(made) is kind
    gathered = hvd.allgather(kind(hvd.rank()))
    assert list(gathered) == [kind(r) for r in each_rank()] and all(type(each) is kind for each in gathered)


def test_numbers_of_more_than_64_bits_are_refused():
    for call in (hvd.allgather, hvd.allreduce, lambda value: hvd.broadcast(value, 0)):
        with pytest.raises(OverflowError, match="an int is sent as 64 bits"):
            call(2**64)


def test_gradients_flow():
    given = torch.ones(3, requires_grad=True)
    hvd.allreduce(given, op=hvd.Sum).sum().backward()
    assert (given.grad == hvd.size()).all()
    rows = torch.ones(hvd.rank() + 1, 2, requires_grad=True)
    hvd.allgather(rows).sum().backward()
    assert (rows.grad == 1).all()
    exchanged, received = hvd.alltoall(given, torch.tensor([3] + [0] * (hvd.size() - 1)))
    assert received.sum() == len(exchanged)


@pytest.mark.parametrize("op", [hvd.Min, hvd.Max, hvd.Product])
def test_other_reductions_have_no_gradient(op):
    given = torch.ones(3, requires_grad=True)
    with pytest.raises(NotImplementedError, match=f"op=hvd.{op.name} has no gradient"):
        hvd.allreduce(given, op=op).sum().backward()
    (given * hvd.allreduce(given, op=op).detach()).sum().backward()
    assert given.grad.shape == (3,)


def test_splits_that_do_not_fit_are_refused():
    rest = [0] * (hvd.size() - 1)
    for splits, message in ([4] + rest, "4 of the 5 rows"), ([6] + rest, "more than the 5 rows"), (
            [5] + rest[1:], f"each of the {hvd.size()} ranks, not {hvd.size() - 1}"), (
            [5, 9] + rest, f"{hvd.size()} ranks, not {hvd.size() + 1}"), ([6, -1] + rest[1:], "must not be negative"):
        with pytest.raises(ValueError, match=message):
            hvd.alltoall(torch.ones(5), torch.tensor(splits))


def test_what_is_no_state_is_named():
    with pytest.raises(TypeError, match="model.named_parameters.*, not the model"):
        hvd.broadcast_parameters(torch.nn.Linear(1, 1))
    with pytest.raises(TypeError, match="must be a torch optimizer, not dict"):
        hvd.broadcast_optimizer_state({}, 0)


def test_process_sets():
    with pytest.raises(ValueError, match="already registered: .*; hvd.global_process_set is that of all ranks"):
        hvd.add_process_set(list(each_rank()))
    alone = hvd.add_process_set([0])
    assert alone.included() == (hvd.rank() == 0) and alone.size() == 1
    if alone.included():
        assert hvd.allreduce(torch.ones(1), op=hvd.Sum, process_set=alone).item() == 1
    else:
        with pytest.raises(ValueError, match="not one of the ranks"):
            hvd.allreduce(torch.ones(1), process_set=alone)
    assert hvd.remove_process_set(alone) and not hvd.remove_process_set(alone)


@pytest.mark.parametrize("call", [
    lambda ranks: hvd.allreduce(torch.ones(1), process_set=ranks),
    lambda ranks: hvd.allreduce(1.0, process_set=ranks),
    lambda ranks: hvd.broadcast(torch.ones(1), 0, process_set=ranks),
    lambda ranks: hvd.allgather(torch.ones(1), process_set=ranks),
    lambda ranks: hvd.alltoall(torch.ones(2), process_set=ranks),
    lambda ranks: hvd.reducescatter(torch.ones(2), process_set=ranks),
    lambda ranks: hvd.barrier(process_set=ranks),
    lambda ranks: hvd.process_set_included(ranks),
    lambda ranks: hvd.broadcast_object(1, process_set=ranks),
    lambda ranks: hvd.broadcast_parameters(torch.nn.Linear(1, 1).state_dict(), process_set=ranks),
    lambda ranks: hvd.SyncBatchNorm(3, process_set=ranks),
    lambda ranks: hvd.DistributedOptimizer(torch.optim.SGD(torch.nn.Linear(1, 1).parameters(), 1), process_set=ranks)])
def test_a_list_of_ranks_is_no_process_set_and_the_error_says_how_to_make_one(call):
    with pytest.raises(TypeError, match=r"process_set must be a ProcessSet, not \[0, 1\]: call added = "
                                        r"hvd.add_process_set\(\[0, 1\]\) once, on all ranks"):
        call([0, 1])


def test_process_sets_given_at_the_start():
    hvd.shutdown()
    others = range(1, world_size())
    given = [hvd.ProcessSet([0]), hvd.ProcessSet(ranks_or_comm=reversed(others) if own_rank() else others)]
    for wrong, why in ((given + [hvd.ProcessSet([0])], "already registered"), (given[:1] * 2, "already registered"),
                       ([hvd.ProcessSet([world_size()])], "is not in the world")):
        with pytest.raises(ValueError, match=why):
            hvd.init(process_sets=wrong)
        assert not hvd.is_initialized()
    hvd.init(process_sets=given)
    assert [each.process_set_id for each in given] == [1, 2] and given[1].ranks == list(others)


def test_wrong_arguments_of_one_rank_end_the_start_on_all():
    hvd.shutdown()
    wrong = own_rank() == 1
    with pytest.raises(ValueError, match="comm must be None" if wrong else "1 other ranks were given wrong"):
        hvd.init(comm=[0] if wrong else None)
    assert not hvd.is_initialized()
    hvd.init()


@pytest.mark.parametrize("wrong, why", [("dynamc", "must be a list"), (hvd.ProcessSet([0]), "must be a list"),
                                        (3, "must be a list"), ([3], "list of ranks"), ([["a"]], "process_sets: ")])
def test_process_sets_of_a_wrong_type_are_refused_on_all_ranks(wrong, why):
    hvd.shutdown()
    with pytest.raises(ValueError, match=why if own_rank() == 0 else "1 other ranks were given wrong"):
        hvd.init(process_sets=wrong if own_rank() == 0 else None)
    assert not hvd.is_initialized()
    hvd.init(process_sets="dynamic")


def test_wrong_handles_and_optimizers_are_named():
    with pytest.raises(TypeError, match="_async has returned, not 12345"):
        hvd.synchronize(12345)
    model = torch.nn.Linear(2, 2)
    made = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1))
    with pytest.raises(ValueError, match="already"):
        hvd.DistributedOptimizer(made)


def test_a_process_that_horovodrun_has_started_is_not_taken_for_a_world_of_one():
    script = "import anello, anello.torch as hvd\ntry: hvd.init()\nexcept anello.Error as e: print(e.code, e)\n"
    alone = {name: value for name, value in os.environ.items() if not name.startswith(("ANELLO_", "OMPI_", "RANK"))}
    alone.update(HOROVOD_RANK="0", HOROVOD_SIZE="3", WORLD_SIZE="1")
    done = subprocess.run([sys.executable, "-c", script], env=alone, text=True, capture_output=True, timeout=300)
    assert done.stdout.startswith("configuration this is task 0 of 3 of horovodrun"), done
    assert "start them with `anello run -np N -- COMMAND`" in done.stdout, done


def test_lists_that_cannot_be_reduced_are_refused():
    shared = torch.ones(10)
    for pair in ([shared, shared], [shared[4:], shared[:5]]):
        with pytest.raises(ValueError, match="tensors 0 and 1 of the list share memory"):
            hvd.grouped_allreduce_(pair)
    with pytest.raises(ValueError, match="there must be a tensor"):
        hvd.grouped_allreduce([])


def test_process_sets_may_be_lists_of_ranks():
    hvd.shutdown()
    hvd.init(process_sets=[[0], range(1, world_size())])
    assert hvd.add_process_set([0] + list(range(2, world_size()))).process_set_id == 3 if world_size() > 2 else True


def test_the_timeline_of_rank_0_counts(monkeypatch, tmp_path):
    hvd.shutdown()
    own = tmp_path / f"of-rank-{own_rank()}"
    monkeypatch.setenv("HOROVOD_TIMELINE", str(own))
    hvd.init()
    hvd.allreduce(torch.ones(1), name="shown")
    hvd.shutdown()
    monkeypatch.undo()
    assert own.exists() == (own_rank() == 0)
    if own_rank() == 0:
        assert "shown" in own.read_text()
    hvd.init()


def test_a_timeline_that_cannot_be_written_is_no_end(monkeypatch, tmp_path):
    hvd.shutdown()
    monkeypatch.setenv("HOROVOD_TIMELINE", str(tmp_path / "missing" / "file"))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        hvd.init()
    assert [("HOROVOD_TIMELINE" in str(each.message)) for each in caught] == [True] * (hvd.rank() == 0)


def test_objects():
    assert hvd.allgather_object({"rank": hvd.rank()}) == [{"rank": r} for r in each_rank()]
    assert hvd.broadcast_object([1, "two"] if hvd.rank() == 1 else None, root_rank=1) == [1, "two"]


def test_the_entry_of_an_object_that_cannot_be_pickled_is_named():
    with pytest.raises(TypeError, match=r"the object\['model'\]\[1\] cannot be sent to other ranks: "):
        hvd.allgather_object({"step": 1, "model": [2, threading.Lock()]})


def test_join_gives_the_last_rank():
    if hvd.rank() > 0:
        assert hvd.allreduce(torch.ones(1), op=hvd.Average, name="late").item() == pytest.approx(1 - 1 / hvd.size())
    last = hvd.join()
    assert hvd.allgather_object(last) == [last] * hvd.size() and last > 0


def test_helpers_of_the_package_take_the_world_of_the_script():
    assert anello.average_metrics(hvd.world(), {"rank": hvd.rank()}) == {"rank": (hvd.size() - 1) / 2}


def test_elastic_state_and_sampler():
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1 * (hvd.rank() + 1))
    sampler = hvd.elastic.ElasticSampler(range(10 * hvd.size()))
    state = hvd.elastic.TorchState(model, optimizer, sampler=sampler, epoch=hvd.rank())
    state.sync()
    assert state.epoch == 0 and optimizer.param_groups[0]["lr"] == 0.1
    sampler.record_batch(0, 4)
    assert len(list(sampler)) == 10
    state.commit()
    state.epoch = 9
    sampler.record_batch(1, 2)
    state.restore()
    assert state.epoch == 0 and sampler.processed_num == 4 * hvd.size()
    sampler.reset()
    assert len(sampler) == 6


@pytest.mark.parametrize("right, wrong", [
    (lambda n: hvd.allreduce(torch.ones(3), name=n), lambda n: hvd.allreduce("1", name=n)),
    (lambda n: hvd.allreduce(torch.ones(3), name=n), lambda n: hvd.allreduce(torch.ones(3), name=n, compression=1)),
    (lambda n: hvd.grouped_allreduce_([torch.ones(3)], name=n), lambda n: hvd.grouped_allreduce_([], name=n)),
    (lambda n: hvd.allgather(torch.ones(3), name=n), lambda n: hvd.allgather(torch.ones(3).to_sparse(), name=n)),
    (lambda n: hvd.broadcast(torch.ones(3), 0, name=n), lambda n: hvd.broadcast(torch.ones(3), 99, name=n)),
    (lambda n: hvd.broadcast_(torch.ones(3), 0, name=n), lambda n: hvd.broadcast_(torch.ones(1).expand(3), 0, name=n)),
    (lambda n: hvd.alltoall(torch.ones(6), name=n), lambda n: hvd.alltoall(torch.ones(7), name=n)),
    (lambda n: hvd.alltoall(torch.ones(6), name=n), lambda n: hvd.alltoall(torch.ones(6), [0.5], name=n)),
    (lambda n: hvd.reducescatter(torch.ones(6), name=n), lambda n: hvd.reducescatter(torch.ones(()), name=n)),
    (lambda n: hvd.allgather_object(1, name=n), lambda n: hvd.allgather_object(iter(inspect.stack()), name=n)),
])
def test_what_one_rank_refuses_fails_on_the_others_with_its_reason(right, wrong):
    for name in (None, "refused"):
        if hvd.rank() == 1:
            with pytest.raises((RuntimeError, TypeError, ValueError)) as raised:
                wrong(name)
            assert "cannot take part" not in str(raised.value)
        else:
            with pytest.raises(hvd.HorovodInternalError, match="rank 1 cannot take part: [A-Za-z]"):
                right(name)
        right(name)
