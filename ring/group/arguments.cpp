#include "ring/group/arguments.hpp"

#include <array>
#include <bit>

#include "ring/base/text.hpp"
#include "ring/group/checks.hpp"

namespace anello::group::calls {
namespace {

// Returns where this rank's part of a larger buffer begins, in bytes.
std::size_t own_offset(Counts counts, const ConstTensor& own, int rank) {
  if (counts.empty()) return own.bytes() * std::size_t(rank);
  return sum(counts.first(std::size_t(rank))) * size_bytes(own.dtype);
}

std::uint64_t fingerprint_of(Counts counts) {
  std::uint64_t before = 0;
  for (const std::uint64_t count : counts) before = fingerprint(before, count);
  return before;
}

const std::byte* at(const void* data, std::size_t bytes) {
  return static_cast<const std::byte*>(data) + bytes;
}

run::Buffer buffer(const ConstTensor& tensor) {
  return {static_cast<std::byte*>(const_cast<void*>(tensor.data)), tensor.count};  // safe: an input is never written
}

// Calls are built and completed in the caller's memory, because copying a call would cost as much as all checks.
void add_token(Call& call, std::uint64_t token) {
  call.token = token;
  if (token != 0) call.fingerprint = fingerprint(call.fingerprint, token);
}

Call call_of(Kind kind, const ConstTensor& input, const Tensor& output, std::uint64_t count, std::string_view name) {
  return {.kind = kind,
          .dtype = input.dtype,
          .count = count,
          .input = buffer(input),
          .output = buffer(output),
          .name = name};
}

// Makes a call in which each rank has a part: rank r has a part of `counts[r]` elements. If `counts` is empty, every
// rank has a part of `equal_count` elements.
Call call_of_parts(Kind kind, const ConstTensor& input, const Tensor& output, std::uint64_t equal_count, Counts counts,
                   std::string_view name) {
  Call result = call_of(kind, input, output, counts.empty() ? equal_count : sum(counts), name);
  result.fingerprint = fingerprint_of(counts);
  result.counts = counts;
  return result;
}

// Sets the options that all reductions have. A signature has no field for a scaling factor, so the factor goes into the
// fingerprint.
void make_reduction(Call& call, Op op, const ReduceOptions& options) {
  call.op = op;
  call.algorithm = options.algorithm;
  call.slab_bytes = options.slab_bytes.value_or(algorithms::kSuitableSlab);
  call.wire = options.wire;
  call.prescale = options.prescale;
  call.postscale = options.postscale;
  if (options.postscale != 1)
    call.fingerprint = fingerprint(call.fingerprint, std::bit_cast<std::uint64_t>(options.postscale));
  add_token(call, options.consistency_token);
}

// Makes one logical run of elements from a list of tensors. Writes its pieces to the caller's `pieces`.
class List {
 public:
  List(std::string_view call, std::span<const Tensor> tensors, std::vector<run::Buffer::Piece>& pieces)
      : pieces_(pieces) {
    pieces.clear();
    if (!tensors.empty()) dtype_ = tensors[0].dtype;
    for (const Tensor& tensor : tensors) {
      check_tensor(call, "tensor", tensor);
      if (tensor.dtype != dtype_)
        refuse(call,
               text("the list has both ", name(dtype_), " and ", name(tensor.dtype), "; call once for each type"));
      fingerprint_ = fingerprint(fingerprint_, tensor.count);
      check_size(call, "list", count_ += tensor.count, dtype_);
      if (tensor.count > 0) pieces.push_back({count_, static_cast<std::byte*>(tensor.data), tensor.count});
    }
  }
  DType dtype() const { return dtype_; }
  std::uint64_t count() const { return count_; }
  std::uint64_t fingerprint_of_counts() const { return fingerprint_; }
  run::Buffer buffer() const { return run::Buffer(pieces_); }

 private:
  DType dtype_ = DType::u8;
  std::uint64_t count_ = 0, fingerprint_ = 0;
  const std::vector<run::Buffer::Piece>& pieces_;
};

}  // namespace

Call allreduce(const ConstTensor& input, const Tensor& output, Op op, const ReduceOptions& options) {
  constexpr std::string_view kCall = "allreduce";
  check_pair(kCall, input, output);
  check_op(kCall, op, input.dtype);
  if (input.count != output.count)
    refuse(kCall, text("the input has ", input.count, " elements but the output ", output.count));
  check_overlap(kCall, input, output, input.data, output.data);
  check_options(kCall, options, input.dtype);
  Call result = call_of(Kind::allreduce, input, output, input.count, options.name);
  make_reduction(result, op, options);
  return result;
}

Call allreduce(std::span<const Tensor> tensors, std::vector<run::Buffer::Piece>& pieces, Op op,
               const ReduceOptions& options) {
  constexpr std::string_view kCall = "allreduce";
  const List list(kCall, tensors, pieces);
  check_apart(kCall, tensors);
  check_op(kCall, op, list.dtype());
  check_options(kCall, options, list.dtype());
  Call result{.kind = Kind::allreduce,
              .dtype = list.dtype(),
              .count = list.count(),
              .fingerprint = list.fingerprint_of_counts(),
              .input = list.buffer(),
              .output = list.buffer(),
              .name = options.name};
  make_reduction(result, op, options);
  return result;
}

Call reduce(RankAndSize self, const ConstTensor& input, Tensor output, int root, Op op, const ReduceOptions& options) {
  constexpr std::string_view kCall = "reduce";
  check_root(kCall, root, self.size);
  if (self.rank != root) output = Tensor(nullptr, 0, input.dtype);
  check_pair(kCall, input, output);
  check_op(kCall, op, input.dtype);
  if (self.rank == root && input.count != output.count)
    refuse(kCall, text("the input has ", input.count, " elements but the output ", output.count));
  check_overlap(kCall, input, output, input.data, output.data);
  check_options(kCall, options, input.dtype);
  if (!options.algorithm.empty()) refuse(kCall, "algorithm must be empty: reduce chooses its own");
  Call result = call_of(Kind::reduce, input, output, input.count, options.name);
  result.root = root;
  make_reduction(result, op, options);
  return result;
}

Call broadcast(RankAndSize self, std::span<const Tensor> tensors, std::vector<run::Buffer::Piece>& pieces, int root,
               const Options& options) {
  constexpr std::string_view kCall = "broadcast";
  check_root(kCall, root, self.size);
  const List list(kCall, tensors, pieces);
  Call result{.kind = Kind::broadcast,
              .dtype = list.dtype(),
              .count = list.count(),
              .root = root,
              .fingerprint = list.fingerprint_of_counts(),
              .input = list.buffer(),
              .output = list.buffer(),
              .name = options.name};
  add_token(result, options.consistency_token);
  return result;
}

Call allgather(RankAndSize self, const ConstTensor& input, const Tensor& output, const PartOptions& options) {
  constexpr std::string_view kCall = "allgather";
  const auto& counts = options.counts;
  check_pair(kCall, input, output);
  check_own(kCall, "input", input.count, input.dtype, counts, self);
  check_whole(kCall, "output", output.count, "input", input.count, counts, self.size);
  check_overlap(kCall, input, output, input.data, at(output.data, own_offset(counts, input, self.rank)));
  Call result = call_of_parts(Kind::allgather, input, output, input.count, counts, options.name);
  add_token(result, options.consistency_token);
  return result;
}

Call gather(RankAndSize self, const ConstTensor& input, Tensor output, int root, const PartOptions& options) {
  constexpr std::string_view kCall = "gather";
  const auto& counts = options.counts;
  check_root(kCall, root, self.size);
  if (self.rank != root) output = Tensor(nullptr, 0, input.dtype);
  check_pair(kCall, input, output);
  check_own(kCall, "input", input.count, input.dtype, counts, self);
  if (self.rank == root) {
    check_whole(kCall, "output", output.count, "input", input.count, counts, self.size);
    check_overlap(kCall, input, output, input.data, at(output.data, own_offset(counts, input, self.rank)));
  }
  Call result = call_of_parts(Kind::gather, input, output, input.count, counts, options.name);
  result.root = root;
  add_token(result, options.consistency_token);
  return result;
}

Call scatter(RankAndSize self, ConstTensor input, const Tensor& output, int root, const PartOptions& options) {
  constexpr std::string_view kCall = "scatter";
  const auto& counts = options.counts;
  check_root(kCall, root, self.size);
  if (self.rank != root) input = ConstTensor(nullptr, 0, output.dtype);
  check_pair(kCall, input, output);
  check_own(kCall, "output", output.count, output.dtype, counts, self);
  if (self.rank == root) {
    check_whole(kCall, "input", input.count, "output", output.count, counts, self.size);
    check_overlap(kCall, input, output, at(input.data, own_offset(counts, output, self.rank)), output.data);
  }
  Call result = call_of_parts(Kind::scatter, input, output, output.count, counts, options.name);
  result.root = root;
  add_token(result, options.consistency_token);
  return result;
}

Call reduce_scatter(RankAndSize self, const ConstTensor& input, const Tensor& output, Op op,
                    const ReduceOptions& options) {
  constexpr std::string_view kCall = "reduce_scatter";
  const auto& counts = options.counts;
  check_pair(kCall, input, output);
  check_op(kCall, op, input.dtype);
  check_own(kCall, "output", output.count, output.dtype, counts, self);
  check_whole(kCall, "input", input.count, "output", output.count, counts, self.size);
  check_overlap(kCall, input, output, at(input.data, own_offset(counts, output, self.rank)), output.data);
  check_options(kCall, options, input.dtype);
  if (!options.algorithm.empty()) refuse(kCall, "algorithm must be empty: reduce_scatter chooses its own");
  Call result = call_of_parts(Kind::reduce_scatter, input, output, output.count, counts, options.name);
  make_reduction(result, op, options);
  return result;
}

Call alltoall(RankAndSize self, const ConstTensor& input, const Tensor& output, const Options& options) {
  constexpr std::string_view kCall = "alltoall";
  check_pair(kCall, input, output);
  if (input.count != output.count)
    refuse(kCall, text("the input has ", input.count, " elements but the output ", output.count));
  if (input.count % std::size_t(self.size) != 0)
    refuse(kCall, text("the ", input.count, " elements cannot be divided among ", self.size, " ranks"));
  check_overlap(kCall, input, output, nullptr, &output);
  Call result = call_of(Kind::alltoall, input, output, input.count / std::size_t(self.size), options.name);
  add_token(result, options.consistency_token);
  return result;
}

Call alltoall(RankAndSize self, const ConstTensor& input, const Tensor& output,
              std::span<const std::uint64_t> send_counts, std::span<const std::uint64_t> recv_counts,
              const Options& options) {
  constexpr std::string_view kCall = "alltoall";
  check_pair(kCall, input, output);
  check_counts(kCall, "send counts", send_counts, input.dtype, self.size);
  check_counts(kCall, "receive counts", recv_counts, input.dtype, self.size);
  check_whole(kCall, "input", input.count, "", 0, send_counts, self.size);
  check_whole(kCall, "output", output.count, "", 0, recv_counts, self.size);
  const std::uint64_t to_itself = send_counts[std::size_t(self.rank)];
  const std::uint64_t from_itself = recv_counts[std::size_t(self.rank)];
  if (to_itself != from_itself)
    refuse(kCall, text("this rank sends ", to_itself, " elements to itself, but expects ", from_itself));
  check_overlap(kCall, input, output, nullptr, &output);
  Call result = call_of(Kind::alltoall, input, output, 0, options.name);
  result.fingerprint = 1;  // so that the fingerprint differs from that of an alltoall of equal parts
  result.counts = send_counts;
  result.received = recv_counts;
  add_token(result, options.consistency_token);
  return result;
}

Call exchange_of_counts(const Call& alltoall, std::span<std::uint64_t> arriving) {
  return {.kind = Kind::alltoall,
          .dtype = DType::u64,
          .count = 1,
          .agreed = alltoall.received,
          .input = buffer(ConstTensor(alltoall.counts)),
          .output = buffer(Tensor(arriving)),
          .name = alltoall.name};
}

Call transfer(const ConstTensor& input, const Tensor& output, const Options& options) {
  check_tensor("send", "tensor", input);
  check_tensor("recv", "tensor", output);
  Call result = call_of(Kind::transfer, input, output, std::max(input.count, output.count), options.name);
  result.root = 0;
  add_token(result, options.consistency_token);
  return result;
}

Call barrier(const Options& options) {
  Call result{.kind = Kind::barrier, .name = options.name};
  add_token(result, options.consistency_token);
  return result;
}

}  // namespace anello::group::calls
