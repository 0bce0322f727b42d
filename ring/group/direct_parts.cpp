#include "ring/group/direct_parts.hpp"

#include <algorithm>
#include <numeric>

namespace anello::group {

void DirectParts::divide(const Call& call, std::uint32_t shift) {
  root_ = call.root;
  inputs_ = call.kind == Kind::broadcast ? Whose::root : call.kind == Kind::allgather ? Whose::own : Whose::all;
  outputs_ = call.kind == Kind::broadcast        ? Whose::others
             : call.kind == Kind::reduce         ? Whose::root
             : call.kind == Kind::reduce_scatter ? Whose::own
                                                 : Whose::all;
  if (inputs_ != Whose::own && outputs_ != Whose::own) return divide_into_chunks(call.count, shift);
  if (call.counts.empty())
    std::ranges::fill(ends_, call.count);
  else
    std::ranges::copy(call.counts, ends_.begin());
  std::partial_sum(ends_.begin(), ends_.end(), ends_.begin());
}

// If the tensors begin at a cache line, each chunk also begins at one.
void DirectParts::divide_into_chunks(std::uint64_t elems, std::uint32_t shift) {
  const std::uint64_t line = 64 >> shift, lines = ends_.size() * line;
  const std::uint64_t chunk = (elems + lines - 1) / lines * line;
  for (std::size_t rank = 0; rank < ends_.size(); rank++) ends_[rank] = std::min(elems, chunk * (rank + 1));
}

plan::Range DirectParts::of(int rank) const {
  const std::uint64_t begin = rank == 0 ? 0 : ends_[std::size_t(rank) - 1];
  return {begin, ends_[std::size_t(rank)] - begin};
}

}  // namespace anello::group
