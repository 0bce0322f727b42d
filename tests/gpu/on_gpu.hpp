// Runs a rank's part of an exercise, and lists of exercises, on the memory of a real or a fake GPU.
#pragma once
#include <gtest/gtest.h>

#include <span>
#include <vector>

#include "gpu/collectives.hpp"
#include "ring/base/element_types.hpp"
#include "ring/base/text.hpp"
#include "ring/group/arguments.hpp"
#include "tests/support/kinds.hpp"
#include "tests/support/worlds.hpp"

namespace anello::gpu {

// The tensors of a rank's part of an exercise.
struct Tensors {
  ConstTensor input;
  Tensor in_place, output;
};
inline Tensors tensors_of(const Part& part) {
  return {part.input(), part.in_place(), part.output()};
}

// `on_gpu`: a backend, or the inside of a GpuGroup.
template <class OnGpu>
void carry_out(OnGpu& on_gpu, int rank, const Exercise& exercise, const Tensors& part, GpuStream stream) {
  namespace calls = group::calls;
  const group::RankAndSize self{rank, exercise.world};
  const std::vector<std::uint64_t> counts = exercise.counts(rank), received = exercise.received(rank);
  const ReduceOptions options{
      .wire = exercise.wire, .prescale = exercise.prescale, .postscale = exercise.postscale, .counts = counts};
  const Tensor& out = part.output;
  const int root = exercise.root;
  std::vector<run::Buffer::Piece> pieces;
  switch (exercise.kind) {
    case Kind::allreduce:
      return on_gpu.carry_out(
          calls::allreduce(exercise.in_place ? ConstTensor(out) : part.input, out, exercise.op, options), stream);
    case Kind::reduce:
      return on_gpu.carry_out(calls::reduce(self, exercise.in_place ? ConstTensor(part.in_place) : part.input,
                                            exercise.in_place ? part.in_place : out, root, exercise.op, options),
                              stream);
    case Kind::broadcast:
      return on_gpu.carry_out(calls::broadcast(self, std::span(&out, 1), pieces, root, {}), stream);
    case Kind::allgather:
      return on_gpu.carry_out(calls::allgather(self, part.input, out, {.counts = counts}), stream);
    case Kind::gather:
      return on_gpu.carry_out(calls::gather(self, part.input, out, root, {.counts = counts}), stream);
    case Kind::scatter:
      return on_gpu.carry_out(calls::scatter(self, part.input, out, root, {.counts = counts}), stream);
    case Kind::reduce_scatter:
      return on_gpu.carry_out(calls::reduce_scatter(self, part.input, out, exercise.op, options), stream);
    case Kind::alltoall:
      if (exercise.uneven)
        return on_gpu.carry_out(calls::alltoall(self, part.input, out, counts, received, {}), stream);
      return on_gpu.carry_out(calls::alltoall(self, part.input, out, {}), stream);
    default:
      FAIL() << "rank " << rank << ": no such exercise";
  }
}

// Every kind, with equal and unequal parts; out of place, and also in place if the backend's call then differs.
inline std::vector<Exercise> exercises_of_all_kinds(std::uint64_t count, int root) {
  std::vector<Exercise> all;
  for (const Kind kind : collectives_with_tensors()) {
    const bool whole = kind == Kind::allreduce || kind == Kind::reduce;
    if (kind == Kind::broadcast || whole) all.push_back({.kind = kind, .count = count, .root = root, .in_place = true});
    if (kind != Kind::broadcast) all.push_back({.kind = kind, .count = count, .root = root});
    if (kind != Kind::broadcast && !whole) all.push_back({.kind = kind, .count = count, .root = root, .uneven = true});
  }
  return all;
}

inline std::vector<Exercise> exercises_of_all_reductions() {
  std::vector<Exercise> all;
  for (const DType dtype : kElementTypes)
    for (int op = int(Op::sum); op <= int(Op::bit_xor); op++)
      if (can_reduce(dtype, Op(op))) all.push_back({.op = Op(op), .dtype = dtype, .count = 100});
  return all;
}

}  // namespace anello::gpu
