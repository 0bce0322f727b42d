// An exercise as asynchronous work.
#pragma once
#include <anello/group.hpp>
#include <memory>

#include "tests/support/exercise.hpp"
#include "tests/support/kinds.hpp"
#include "tests/support/random.hpp"

namespace anello {

// Keeps the exercise's memory.
struct Started {
  std::unique_ptr<Part> part;
  Work work;

  Started(Group& group, Exercise exercise) {
    exercise.world = group.size();
    if (exercise.kind == Kind::broadcast) exercise.in_place = true;
    part = std::make_unique<Part>(exercise, group.rank());
    const std::vector<std::uint64_t> counts = exercise.counts(group.rank()), received = exercise.received(group.rank());
    const ReduceOptions options{.name = "a name that is too long to be kept where it is",
                                .algorithm = exercise.kind == Kind::allreduce ? name(exercise.algorithm) : "",
                                .wire = exercise.wire,
                                .prescale = exercise.prescale,
                                .postscale = exercise.postscale,
                                .counts = counts};
    const ConstTensor in = part->input();
    const Tensor out = part->output();
    switch (exercise.kind) {
      case Kind::allreduce:
        work = group.allreduce_async(in, out, exercise.op, options);
        break;
      case Kind::broadcast:
        work = group.broadcast_async(out, exercise.root);
        break;
      case Kind::allgather:
        work = group.allgather_async(in, out, {.counts = counts});
        break;
      case Kind::reduce_scatter:
        work = group.reduce_scatter_async(in, out, exercise.op, options);
        break;
      case Kind::barrier:
        work = group.barrier_async();
        break;
      case Kind::reduce:
        work = group.reduce_async(in, out, exercise.root, exercise.op, options);
        break;
      case Kind::gather:
        work = group.gather_async(in, out, exercise.root, {.counts = counts});
        break;
      case Kind::scatter:
        work = group.scatter_async(in, out, exercise.root, {.counts = counts});
        break;
      case Kind::transfer:
        break;
      case Kind::alltoall:
        work = exercise.uneven ? group.alltoall_async(in, out, counts, received) : group.alltoall_async(in, out);
        break;
    }
  }
};

inline Exercise any_exercise(int size, Random& random) {
  Exercise exercise;
  exercise.kind = random.one_of(collectives_with_tensors());
  exercise.op = random.percent(50) ? Op::sum : Op::average;
  exercise.dtype = random.percent(50) ? DType::f32 : DType::i64;
  exercise.count = random.percent(20) ? random.from(0, 20'000) : random.from(0, 300);
  exercise.root = int(random.below(std::uint64_t(size)));
  const bool whole =
      exercise.kind == Kind::allreduce || exercise.kind == Kind::broadcast || exercise.kind == Kind::reduce;
  exercise.uneven = !whole && random.percent(40);
  exercise.in_place = exercise.kind != Kind::alltoall && random.percent(50);
  return exercise;
}

}  // namespace anello
