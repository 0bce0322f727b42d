#include "ring/group/checks.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "ring/algorithms/selection.hpp"
#include "ring/base/text.hpp"
#include "ring/run/arithmetic.hpp"

namespace anello::group {

void refuse(std::string_view call, const std::string& why) {
  throw Error(ErrorCode::invalid_argument, text(call, ": ", why));
}

void refuse_size(std::string_view call, std::string_view which, std::uint64_t count) {
  refuse(call, text("the ", which, " has ", count, " elements, more than any memory holds"));
}

void refuse_dtypes(std::string_view call, DType input, DType output) {
  refuse(call, text("the input is ", name(input), " but the output is ", name(output)));
}

void check_tensor_closely(std::string_view call, std::string_view which, const ConstTensor& tensor) {
  if (tensor.count > 0 && !tensor.data)
    refuse(call, text("the ", which, " is a null pointer with ", tensor.count, " elements"));
  if (name(tensor.dtype) == "?")
    refuse(call, text("the ", which, "'s dtype ", int(tensor.dtype), " is not one of anello::DType"));
  check_size(call, which, tensor.count, tensor.dtype);
}

std::uint64_t sum(Counts counts) {
  return std::accumulate(counts.begin(), counts.end(), std::uint64_t(0));
}

void check_counts(std::string_view call, std::string_view which, Counts counts, DType dtype, int size) {
  if (counts.size() != std::size_t(size))
    refuse(call, text("there are ", counts.size(), " ", which, " for ", size, " ranks"));
  const std::uint64_t max_count = PTRDIFF_MAX / size_bytes(dtype);
  std::uint64_t total = 0;
  for (const std::uint64_t count : counts)
    if (count > max_count || (total += count) > max_count)
      refuse_size(call, text("buffer of the ", which), std::max(count, total));
}

void check_overlap(std::string_view call, const ConstTensor& input, const Tensor& output, const void* in_place_input,
                   const void* in_place_output) {
  if (in_place_input == in_place_output || input.bytes() == 0 || output.bytes() == 0) return;
  const auto a = reinterpret_cast<std::uintptr_t>(input.data), b = reinterpret_cast<std::uintptr_t>(output.data);
  if (a >= b + output.bytes() || b >= a + input.bytes()) return;
  if (!in_place_input)
    refuse(call, text("there is no ", call, " in place: give an output that shares no memory with the input"));
  refuse(call,
         "input and output overlap, but are not the same memory; use the same memory for both, or separate memory");
}

// A list whose tensors lie in ascending order, such as the parts of one buffer, needs no sorting.
void check_apart(std::string_view call, std::span<const Tensor> list) {
  const auto begin = [&](std::size_t k) { return reinterpret_cast<std::uintptr_t>(list[k].data); };
  const auto overlap = [&](std::size_t k, std::size_t next) {
    return list[next].count > 0 && begin(next) < begin(k) + list[k].bytes();
  };
  bool ascend = true;
  for (std::size_t k = 1; k < list.size() && ascend; k++)
    ascend = list[k - 1].count > 0 && list[k].count > 0 && !overlap(k - 1, k);
  if (ascend) return;
  thread_local std::vector<std::size_t> order;
  order.clear();
  for (std::size_t k = 0; k < list.size(); k++)
    if (list[k].count > 0) order.push_back(k);
  std::ranges::sort(order, {}, begin);
  for (std::size_t k = 1; k < order.size(); k++)
    if (const auto [one, other] = std::minmax(order[k - 1], order[k]); overlap(order[k - 1], order[k]))
      refuse(call, text("tensors ", one, " and ", other, " of the list share memory; give each element once"));
}

// Divides instead of multiplying, because a product could overflow.
void check_whole(std::string_view call, std::string_view larger, std::uint64_t all, std::string_view smaller,
                 std::uint64_t count, Counts counts, int size) {
  const auto n = std::uint64_t(size);
  if (counts.empty() && (all % n != 0 || all / n != count))
    refuse(call, text("the ", larger, " has ", all, " elements, not ", size, " times the ", smaller, "'s ", count));
  if (!counts.empty() && sum(counts) != all)
    refuse(call, text("the ", larger, " has ", all, " elements, but the counts add up to ", sum(counts)));
}

void check_own(std::string_view call, std::string_view smaller, std::uint64_t count, DType dtype, Counts counts,
               RankAndSize self) {
  if (counts.empty()) return;
  check_counts(call, "counts", counts, dtype, self.size);
  const std::uint64_t own = counts[std::size_t(self.rank)];
  if (count != own)
    refuse(call, text("the ", smaller, " has ", count, " elements, but the counts give rank ", self.rank, " ", own));
}

void check_root(std::string_view call, int root, int size) {
  if (root < 0 || root >= size) refuse(call, text("root ", root, " is not one of ", size, " ranks"));
}

void check_peer(std::string_view call, int peer, RankAndSize self) {
  if (peer < 0 || peer >= self.size) refuse(call, text("peer ", peer, " is not one of ", self.size, " ranks"));
  if (peer == self.rank) refuse(call, "a rank cannot be its own peer");
}

void check_op_closely(std::string_view call, Op op, DType dtype) {
  if (name(op) == "?") refuse(call, text("reduction ", int(op), " is not one of anello::Op"));
  if (can_reduce(dtype, op)) return;
  const std::string_view remedy = kind(dtype) == ElementKind::truth  ? "take sum for any, product for all"
                                  : kind(dtype) == ElementKind::real ? "the bitwise reductions are for integers"
                                                                     : "convert them, for example to f16";
  refuse(call, text("there is no ", name(op), " of ", name(dtype), "; ", remedy));
}

void check_finite(std::string_view call, std::string_view which, double factor) {
  if (!std::isfinite(factor)) refuse(call, text("the ", which, " ", factor, " is not finite"));
}

static void check_factor(std::string_view call, std::string_view which, double factor, DType dtype) {
  if (!is_float(dtype)) refuse(call, text("a ", which, " is for floats, not for ", name(dtype)));
  check_finite(call, which, factor);
  if (dtype != DType::f64 && !std::isfinite(float(factor)))
    refuse(call, text("the ", which, " ", factor, " is outside the range of f32, and ", name(dtype),
                      " is multiplied in f32"));
}

void check_options_closely(std::string_view call, const ReduceOptions& options, DType dtype) {
  if (options.prescale != 1) check_factor(call, "prescale", options.prescale, dtype);
  if (options.postscale != 1) check_factor(call, "postscale", options.postscale, dtype);
  if (!options.counts.empty() && call != "reduce_scatter")
    refuse(call, "counts are for allgather, gather, scatter and reduce_scatter");
  if (options.slab_bytes && *options.slab_bytes < 0)
    refuse(call, text("slab_bytes must be 0 (the whole buffer at once) or positive, not ", *options.slab_bytes));
  if (options.wire && !run::can_travel_as(dtype, *options.wire))
    refuse(call,
           text(name(dtype), " cannot travel as ", name(*options.wire), "; only f32 and f64 can, as f16 or bf16"));
}

}  // namespace anello::group
