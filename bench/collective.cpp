#include "bench/collective.hpp"

#include <array>

#include "bench/pattern.hpp"

namespace anello::bench {
namespace {

double twice_all_but_own(int world) {
  return 2.0 * (world - 1) / world;
}
double all_but_own(int world) {
  return double(world - 1) / world;
}
double once(int) {
  return 1;
}

// Returns part `index` of `whole`.
Tensor part(Tensor whole, int index, int world) {
  const std::size_t count = whole.count / std::size_t(world);
  return {static_cast<std::byte*>(whole.data) + std::size_t(index) * count * size_bytes(whole.dtype), count,
          whole.dtype};
}
Tensor at_root(Tensor tensor, int rank) {
  return rank == 0 ? tensor : Tensor(nullptr, 0, tensor.dtype);
}

}  // namespace

std::span<const Collective> collectives() {
  static constexpr std::array kRows = {
      Collective{Kind::allreduce, "allreduce", "every rank gets the reduction over all ranks", true, twice_all_but_own},
      Collective{Kind::broadcast, "broadcast", "every rank gets rank 0's tensor", false, once},
      Collective{Kind::reduce, "reduce", "rank 0 gets the reduction over all ranks", true, once},
      Collective{Kind::allgather, "allgather", "every rank gets all ranks' parts", false, all_but_own},
      Collective{Kind::reduce_scatter, "reduce_scatter", "every rank gets its part of the reduction", true,
                 all_but_own},
      Collective{Kind::gather, "gather", "rank 0 gets all ranks' parts", false, all_but_own},
      Collective{Kind::scatter, "scatter", "every rank gets its part of rank 0's tensor", false, all_but_own},
      Collective{Kind::alltoall, "alltoall", "every rank sends each rank a part", false, all_but_own},
      Collective{Kind::barrier, "barrier", "every rank waits for all ranks; has no size", false, once},
  };
  return kRows;
}

std::optional<Tensors> out_of_place(Kind kind, Tensor from, Tensor to, int rank, int world) {
  switch (kind) {
    case Kind::allgather:
      return Tensors{part(from, 0, world), to};
    case Kind::gather:
      return Tensors{part(from, 0, world), at_root(to, rank)};
    case Kind::reduce_scatter:
      return Tensors{from, part(to, 0, world)};
    case Kind::scatter:
      return Tensors{at_root(from, rank), part(to, 0, world)};
    case Kind::reduce:
      return Tensors{from, at_root(to, rank)};
    case Kind::broadcast:
      return std::nullopt;
    default:
      return Tensors{from, to};
  }
}

std::optional<Tensors> in_place(Kind kind, Tensor whole, int rank, int world) {
  switch (kind) {
    case Kind::allgather:
      return Tensors{part(whole, rank, world), whole};
    case Kind::gather:
      return Tensors{part(whole, rank, world), at_root(whole, rank)};
    case Kind::reduce_scatter:
      return Tensors{whole, part(whole, rank, world)};
    case Kind::scatter:
      return Tensors{at_root(whole, rank), part(whole, rank, world)};
    case Kind::reduce:
      return Tensors{whole, at_root(whole, rank)};
    case Kind::alltoall:
    case Kind::barrier:
      return std::nullopt;
    default:
      return Tensors{whole, whole};
  }
}

std::uint64_t count_wrong(Kind kind, ConstTensor output, Op op, int rank, int world) {
  if (output.count == 0) return 0;
  const auto of = [&](int each) { return Pattern(output.dtype, op, each, world); };
  const auto wrong_parts = [&](std::uint64_t first) {
    std::uint64_t wrong = 0;
    const Tensor whole(const_cast<void*>(output.data), output.count, output.dtype);
    for (int r = 0; r < world; r++) wrong += of(r).count_unlike_input(part(whole, r, world), first);
    return wrong;
  };
  switch (kind) {
    case Kind::broadcast:
      return of(0).count_unlike_input(output, 0);
    case Kind::scatter:
      return of(0).count_unlike_input(output, output.count * std::uint64_t(rank));
    case Kind::reduce_scatter:
      return of(rank).count_wrong(output, output.count * std::uint64_t(rank));
    case Kind::allgather:
    case Kind::gather:
      return wrong_parts(0);
    case Kind::alltoall:
      return wrong_parts(output.count / std::uint64_t(world) * std::uint64_t(rank));
    default:
      return of(rank).count_wrong(output);
  }
}

}  // namespace anello::bench
