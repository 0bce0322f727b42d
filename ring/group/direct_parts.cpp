#include "ring/group/direct_parts.hpp"

#include <algorithm>
#include <numeric>

namespace anello::group {

plan::Range chunk_of(std::uint64_t elems, int ranks, int rank, std::uint32_t shift) {
  const std::uint64_t line = 64 >> shift, lines = std::uint64_t(ranks) * line;
  const std::uint64_t chunk = (elems + lines - 1) / lines * line;
  const std::uint64_t begin = std::min(elems, chunk * std::uint64_t(rank));
  return {begin, std::min(elems, begin + chunk) - begin};
}

void DirectParts::divide(const Call& call, std::uint32_t shift) {
  root_ = call.root;
  inputs_ = call.kind == Kind::broadcast ? Whose::root : call.kind == Kind::allgather ? Whose::own : Whose::all;
  outputs_ = call.kind == Kind::broadcast        ? Whose::others
             : call.kind == Kind::reduce         ? Whose::root
             : call.kind == Kind::reduce_scatter ? Whose::own
                                                 : Whose::all;
  if (inputs_ != Whose::own && outputs_ != Whose::own) {
    const int ranks = int(ends_.size());
    for (int rank = 0; rank < ranks; rank++) ends_[std::size_t(rank)] = chunk_of(call.count, ranks, rank, shift).end();
    return;
  }
  if (call.counts.empty())
    std::ranges::fill(ends_, call.count);
  else
    std::ranges::copy(call.counts, ends_.begin());
  std::partial_sum(ends_.begin(), ends_.end(), ends_.begin());
}

plan::Range DirectParts::of(int rank) const {
  const std::uint64_t begin = rank == 0 ? 0 : ends_[std::size_t(rank) - 1];
  return {begin, ends_[std::size_t(rank)] - begin};
}

}  // namespace anello::group
