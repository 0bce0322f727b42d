// Exercises on a fake GPU: carrying out what a rank has to do, and whole rows of them on one stream.
#pragma once
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "gpu/collectives.hpp"
#include "ring/base/text.hpp"
#include "tests/gpu/fake_gpu.hpp"
#include "tests/support/worlds.hpp"

namespace anello::gpu {

inline void carry_out(Collectives& on_gpu, int rank, const Exercise& exercise, Part& part, void* stream) {
  const std::vector<std::uint64_t> counts = exercise.counts(rank), received = exercise.received(rank);
  const ReduceOptions options{
      .wire = exercise.wire, .prescale = exercise.prescale, .postscale = exercise.postscale, .counts = counts};
  const ConstTensor input = exercise.in_place ? ConstTensor(part.output()) : part.input();
  const Tensor tensor = part.output();
  switch (exercise.kind) {
    case Kind::allreduce:
      return on_gpu.allreduce(input, part.output(), stream, exercise.op, options);
    case Kind::reduce:
      return on_gpu.reduce(exercise.in_place ? ConstTensor(part.in_place()) : part.input(),
                           exercise.in_place ? part.in_place() : part.output(), exercise.root, stream, exercise.op,
                           options);
    case Kind::broadcast:
      return on_gpu.broadcast(std::span(&tensor, 1), exercise.root, stream, {});
    case Kind::all_gather:
      return on_gpu.all_gather(part.input(), part.output(), stream, {.counts = counts});
    case Kind::gather:
      return on_gpu.gather(part.input(), part.output(), exercise.root, stream, {.counts = counts});
    case Kind::scatter:
      return on_gpu.scatter(part.input(), part.output(), exercise.root, stream, {.counts = counts});
    case Kind::reduce_scatter:
      return on_gpu.reduce_scatter(part.input(), part.output(), stream, exercise.op, options);
    case Kind::all_to_all:
      if (exercise.uneven) return on_gpu.all_to_all(part.input(), part.output(), counts, received, stream, {});
      return on_gpu.all_to_all(part.input(), part.output(), stream, {});
    default:
      FAIL() << "rank " << rank << ": no such exercise";
  }
}

// Every kind, equal and unequal parts, out of place and, where that is a call of its own, in place.
inline std::vector<Exercise> exercises_of_all_kinds(std::uint64_t count, int root) {
  std::vector<Exercise> all;
  for (const Kind kind : {Kind::allreduce, Kind::reduce, Kind::broadcast, Kind::all_gather, Kind::gather, Kind::scatter,
                          Kind::reduce_scatter, Kind::all_to_all}) {
    const bool whole = kind == Kind::allreduce || kind == Kind::reduce;
    if (kind == Kind::broadcast || whole) all.push_back({.kind = kind, .count = count, .root = root, .in_place = true});
    if (kind != Kind::broadcast) all.push_back({.kind = kind, .count = count, .root = root});
    if (kind != Kind::broadcast && !whole) all.push_back({.kind = kind, .count = count, .root = root, .uneven = true});
  }
  return all;
}

inline std::vector<Exercise> exercises_of_all_reductions() {
  std::vector<Exercise> all;
  for (int dtype = int(DType::f16); dtype <= int(DType::boolean); dtype++)
    for (int op = int(Op::sum); op <= int(Op::bit_xor); op++)
      if (can_reduce(DType(dtype), Op(op))) all.push_back({.op = Op(op), .dtype = DType(dtype), .count = 100});
  return all;
}

// All in a row by this rank, on one stream of its own; only then are the results looked at.
inline void expect_right(Collectives& on_gpu, World& world, const Device& device, std::vector<Exercise> exercises) {
  const Stream stream = make_stream(device);
  std::vector<std::unique_ptr<Part>> parts;
  for (Exercise& exercise : exercises) {
    exercise.world = world.size();
    parts.push_back(std::make_unique<Part>(exercise, world.rank()));
    carry_out(on_gpu, world.rank(), exercise, *parts.back(), stream.get());
  }
  fake::finish(stream.get());
  for (std::size_t k = 0; k < parts.size(); k++)
    EXPECT_EQ(parts[k]->wrong(), "") << describe(exercises[k]) << ", rank " << world.rank();
}

}  // namespace anello::gpu
