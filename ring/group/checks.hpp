// Checks of the arguments of a collective call. Each check throws Error{invalid_argument} that names the call, the
// wrong argument and the values. Pure.
#pragma once
#include <anello/group.hpp>
#include <bit>

#include "ring/base/element_types.hpp"

namespace anello::group {

// The calling rank, and the number of ranks in its group.
struct RankAndSize {
  int rank = 0, size = 1;
};
using Counts = std::span<const std::uint64_t>;  // elements of each rank's part; empty: all parts are equal
std::uint64_t sum(Counts counts);

[[noreturn]] void refuse(std::string_view call, const std::string& why);
[[noreturn]] void refuse_size(std::string_view call, std::string_view which, std::uint64_t count);
[[noreturn]] void refuse_dtypes(std::string_view call, DType input, DType output);

// Inline, because it runs in even the smallest operation.
inline void check_size(std::string_view call, std::string_view which, std::uint64_t count, DType dtype) {
  // Uses a shift, not a division, because an allreduce's list may have many tensors. All element sizes are powers of
  // two.
  if (count > std::uint64_t(PTRDIFF_MAX) >> std::countr_zero(size_bytes(dtype))) refuse_size(call, which, count);
}
void check_tensor_closely(std::string_view call, std::string_view which, const ConstTensor& tensor);
inline void check_tensor(std::string_view call, std::string_view which, const ConstTensor& tensor) {
  constexpr std::uint64_t kSafeCount = PTRDIFF_MAX / 8;  // any type's elements then fit into PTRDIFF_MAX bytes
  if (!is_known(tensor.dtype) || !tensor.data || tensor.count > kSafeCount) check_tensor_closely(call, which, tensor);
}
inline void check_pair(std::string_view call, const ConstTensor& input, const Tensor& output) {
  check_tensor(call, "input", input);
  check_tensor(call, "output", output);
  if (input.dtype != output.dtype) refuse_dtypes(call, input.dtype, output.dtype);
}
// Checks that no two tensors of a list share memory, because a reduction in place would write both results to the
// shared memory. Throws std::bad_alloc.
void check_apart(std::string_view call, std::span<const Tensor> list);
// Checks that the input and the output either are in place or share no memory. They are in place if they begin at
// `in_place_input` and `in_place_output`. `in_place_input` is null for a collective that is never in place.
void check_overlap(std::string_view call, const ConstTensor& input, const Tensor& output, const void* in_place_input,
                   const void* in_place_output);

// Checks that there is one count for each rank, and that the sum of all parts does not exceed the address space.
void check_counts(std::string_view call, std::string_view which, Counts counts, DType dtype, int size);
// Checks that the larger buffer, of `all` elements, holds every rank's part, and that the smaller buffer, of `count`
// elements, is one part.
void check_whole(std::string_view call, std::string_view larger, std::uint64_t all, std::string_view smaller,
                 std::uint64_t count, Counts counts, int size);
// Checks that the smaller buffer has the size of this rank's part.
void check_own(std::string_view call, std::string_view smaller, std::uint64_t count, DType dtype, Counts counts,
               RankAndSize self);

void check_root(std::string_view call, int root, int size);
void check_peer(std::string_view call, int peer, RankAndSize self);
void check_op_closely(std::string_view call, Op op, DType dtype);
inline void check_op(std::string_view call, Op op, DType dtype) {
  // A sum is possible for every type, except for those that can only be stored.
  if (op != Op::sum || is_only_stored(dtype)) check_op_closely(call, op, dtype);
}
void check_options_closely(std::string_view call, const ReduceOptions& options, DType dtype);
inline void check_options(std::string_view call, const ReduceOptions& options, DType dtype) {
  const bool plain = options.prescale == 1 && options.postscale == 1 && options.counts.empty();
  if (!plain || options.slab_bytes || options.wire) check_options_closely(call, options, dtype);
}
void check_finite(std::string_view call, std::string_view which, double factor);  // `which`: such as "prescale"

}  // namespace anello::group
