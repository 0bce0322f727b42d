// What can be wrong with the arguments of a verb. Each check throws Error{invalid_argument} that names the verb, the
// culprit and the values. Pure.
#pragma once
#include <anello/group.hpp>

namespace anello {

// Who calls: a rank of so many.
struct RankAndSize {
  int rank = 0, size = 1;
};
using Counts = std::span<const std::uint64_t>;  // of the ranks' parts; empty: they are equal
std::uint64_t sum(Counts counts);

[[noreturn]] void refuse(std::string_view verb, const std::string& why);
[[noreturn]] void refuse_size(std::string_view verb, std::string_view which, std::uint64_t count);
[[noreturn]] void refuse_tensor(std::string_view verb, std::string_view which, const ConstTensor& tensor);

// Inline, since every call of the smallest operation comes this way.
inline void check_size(std::string_view verb, std::string_view which, std::uint64_t count, DType dtype) {
  if (count > PTRDIFF_MAX / size_bytes(dtype)) refuse_size(verb, which, count);
}
inline void check_tensor(std::string_view verb, std::string_view which, const ConstTensor& tensor) {
  if ((tensor.count > 0 && !tensor.data) || name(tensor.dtype) == "?") refuse_tensor(verb, which, tensor);
  check_size(verb, which, tensor.count, tensor.dtype);
}
void check_pair(std::string_view verb, const ConstTensor& input, const Tensor& output);
// Either the two places are the same, or the buffers have no memory in common.
void check_overlap(std::string_view verb, const ConstTensor& input, const Tensor& output, const void* in_place_input,
                   const void* in_place_output);

// One count for every rank, and memory could hold them all.
void check_counts(std::string_view verb, std::string_view which, Counts counts, DType dtype, int size);
// The larger buffer holds every rank's part, of which the smaller one has `count` elements.
void check_whole(std::string_view verb, std::string_view larger, std::uint64_t all, std::string_view smaller,
                 std::uint64_t count, Counts counts, int size);
// The smaller buffer is this rank's part.
void check_own(std::string_view verb, std::string_view smaller, std::uint64_t count, DType dtype, Counts counts,
               RankAndSize self);

void check_root(std::string_view verb, int root, int size);
void check_peer(std::string_view verb, int peer, RankAndSize self);
void check_op(std::string_view verb, Op op, DType dtype);
void check_options(std::string_view verb, const ReduceOptions& options, DType dtype);

}  // namespace anello
