#include "ring/group/arguments.hpp"

#include <array>
#include <bit>

#include "ring/base/text.hpp"
#include "ring/group/checks.hpp"

namespace anello::operations {
namespace {

// Where this rank's part of a larger buffer begins.
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

Buffer buffer(const ConstTensor& tensor) {
  return {static_cast<std::byte*>(const_cast<void*>(tensor.data)), tensor.count};  // an input is never written
}

Operation agreeing(Operation operation, std::uint64_t number) {
  if (number != 0) operation.fingerprint = fingerprint(operation.fingerprint, number);
  return operation;
}

// What all reductions take from their options. A factor has no field of its own in a signature.
Operation reduction(Operation operation, Op op, const ReduceOptions& options) {
  operation.op = op;
  operation.algorithm = options.algorithm;
  operation.slab_bytes = options.slab_bytes.value_or(kSuitableSlab);
  operation.wire = options.wire;
  operation.prescale = options.prescale;
  operation.postscale = options.postscale;
  if (options.postscale != 1)
    operation.fingerprint = fingerprint(operation.fingerprint, std::bit_cast<std::uint64_t>(options.postscale));
  return agreeing(std::move(operation), options.consistency_token);
}

// A list of tensors as one run of elements; its pieces lie in `pieces`.
class List {
 public:
  List(std::string_view verb, std::span<const Tensor> tensors, std::vector<Buffer::Piece>& pieces) : pieces_(pieces) {
    pieces.clear();
    if (!tensors.empty()) dtype_ = tensors[0].dtype;
    for (const Tensor& tensor : tensors) {
      check_tensor(verb, "tensor", tensor);
      if (tensor.dtype != dtype_)
        refuse(verb, text("the list has both ", name(dtype_), " and ", name(tensor.dtype), "; send one list for each"));
      fingerprint_ = fingerprint(fingerprint_, tensor.count);
      check_size(verb, "list", count_ += tensor.count, dtype_);
      if (tensor.count > 0) pieces.push_back({count_, static_cast<std::byte*>(tensor.data), tensor.count});
    }
  }
  DType dtype() const { return dtype_; }
  std::uint64_t count() const { return count_; }
  std::uint64_t fingerprint_of_counts() const { return fingerprint_; }
  Buffer buffer() const { return Buffer(pieces_); }

 private:
  DType dtype_ = DType::u8;
  std::uint64_t count_ = 0, fingerprint_ = 0;
  const std::vector<Buffer::Piece>& pieces_;
};

}  // namespace

Operation allreduce(ConstTensor input, Tensor output, Op op, const ReduceOptions& options) {
  constexpr std::string_view kVerb = "allreduce";
  check_pair(kVerb, input, output);
  check_op(kVerb, op, input.dtype);
  if (input.count != output.count)
    refuse(kVerb, text("the input has ", input.count, " elements but the output ", output.count));
  check_overlap(kVerb, input, output, input.data, output.data);
  check_options(kVerb, options, input.dtype);
  return reduction({.kind = Kind::allreduce,
                    .dtype = input.dtype,
                    .count = input.count,
                    .input = buffer(input),
                    .output = buffer(output),
                    .name = options.name},
                   op, options);
}

Operation allreduce(std::span<const Tensor> tensors, std::vector<Buffer::Piece>& pieces, Op op,
                    const ReduceOptions& options) {
  constexpr std::string_view kVerb = "allreduce";
  const List list(kVerb, tensors, pieces);
  check_op(kVerb, op, list.dtype());
  check_options(kVerb, options, list.dtype());
  return reduction({.kind = Kind::allreduce,
                    .dtype = list.dtype(),
                    .count = list.count(),
                    .fingerprint = list.fingerprint_of_counts(),
                    .input = list.buffer(),
                    .output = list.buffer(),
                    .name = options.name},
                   op, options);
}

Operation reduce(RankAndSize seat, ConstTensor input, Tensor output, int root, Op op, const ReduceOptions& options) {
  constexpr std::string_view kVerb = "reduce";
  check_root(kVerb, root, seat.size);
  if (seat.rank != root) output = Tensor(nullptr, 0, input.dtype);
  check_pair(kVerb, input, output);
  check_op(kVerb, op, input.dtype);
  if (seat.rank == root && input.count != output.count)
    refuse(kVerb, text("the input has ", input.count, " elements but the output ", output.count));
  check_overlap(kVerb, input, output, input.data, output.data);
  check_options(kVerb, options, input.dtype);
  if (!options.algorithm.empty()) refuse(kVerb, "there is no algorithm to force, only a slab");
  return reduction({.kind = Kind::reduce,
                    .dtype = input.dtype,
                    .count = input.count,
                    .root = root,
                    .input = buffer(input),
                    .output = buffer(output),
                    .name = options.name},
                   op, options);
}

Operation broadcast(RankAndSize seat, std::span<const Tensor> tensors, std::vector<Buffer::Piece>& pieces, int root,
                    const Options& options) {
  constexpr std::string_view kVerb = "broadcast";
  check_root(kVerb, root, seat.size);
  const List list(kVerb, tensors, pieces);
  return agreeing({.kind = Kind::broadcast,
                   .dtype = list.dtype(),
                   .count = list.count(),
                   .root = root,
                   .fingerprint = list.fingerprint_of_counts(),
                   .input = list.buffer(),
                   .output = list.buffer(),
                   .name = options.name},
                  options.consistency_token);
}

Operation allgather(RankAndSize seat, ConstTensor input, Tensor output, const PartOptions& options) {
  constexpr std::string_view kVerb = "allgather";
  const auto& counts = options.counts;
  check_pair(kVerb, input, output);
  check_own(kVerb, "input", input.count, input.dtype, counts, seat);
  check_whole(kVerb, "output", output.count, "input", input.count, counts, seat.size);
  check_overlap(kVerb, input, output, input.data, at(output.data, own_offset(counts, input, seat.rank)));
  return agreeing({.kind = Kind::allgather,
                   .dtype = input.dtype,
                   .count = counts.empty() ? input.count : sum(counts),
                   .fingerprint = fingerprint_of(counts),
                   .counts = counts,
                   .input = buffer(input),
                   .output = buffer(output),
                   .name = options.name},
                  options.consistency_token);
}

Operation gather(RankAndSize seat, ConstTensor input, Tensor output, int root, const PartOptions& options) {
  constexpr std::string_view kVerb = "gather";
  const auto& counts = options.counts;
  check_root(kVerb, root, seat.size);
  if (seat.rank != root) output = Tensor(nullptr, 0, input.dtype);
  check_pair(kVerb, input, output);
  check_own(kVerb, "input", input.count, input.dtype, counts, seat);
  if (seat.rank == root) {
    check_whole(kVerb, "output", output.count, "input", input.count, counts, seat.size);
    check_overlap(kVerb, input, output, input.data, at(output.data, own_offset(counts, input, seat.rank)));
  }
  return agreeing({.kind = Kind::gather,
                   .dtype = input.dtype,
                   .count = counts.empty() ? input.count : sum(counts),
                   .root = root,
                   .fingerprint = fingerprint_of(counts),
                   .counts = counts,
                   .input = buffer(input),
                   .output = buffer(output),
                   .name = options.name},
                  options.consistency_token);
}

Operation scatter(RankAndSize seat, ConstTensor input, Tensor output, int root, const PartOptions& options) {
  constexpr std::string_view kVerb = "scatter";
  const auto& counts = options.counts;
  check_root(kVerb, root, seat.size);
  if (seat.rank != root) input = ConstTensor(nullptr, 0, output.dtype);
  check_pair(kVerb, input, output);
  check_own(kVerb, "output", output.count, output.dtype, counts, seat);
  if (seat.rank == root) {
    check_whole(kVerb, "input", input.count, "output", output.count, counts, seat.size);
    check_overlap(kVerb, input, output, at(input.data, own_offset(counts, output, seat.rank)), output.data);
  }
  return agreeing({.kind = Kind::scatter,
                   .dtype = output.dtype,
                   .count = counts.empty() ? output.count : sum(counts),
                   .root = root,
                   .fingerprint = fingerprint_of(counts),
                   .counts = counts,
                   .input = buffer(input),
                   .output = buffer(output),
                   .name = options.name},
                  options.consistency_token);
}

Operation reduce_scatter(RankAndSize seat, ConstTensor input, Tensor output, Op op, const ReduceOptions& options) {
  constexpr std::string_view kVerb = "reduce_scatter";
  const auto& counts = options.counts;
  check_pair(kVerb, input, output);
  check_op(kVerb, op, input.dtype);
  check_own(kVerb, "output", output.count, output.dtype, counts, seat);
  check_whole(kVerb, "input", input.count, "output", output.count, counts, seat.size);
  check_overlap(kVerb, input, output, at(input.data, own_offset(counts, output, seat.rank)), output.data);
  check_options(kVerb, options, input.dtype);
  if (!options.algorithm.empty()) refuse(kVerb, "it always goes round the ring; there is no algorithm to force");
  return reduction({.kind = Kind::reduce_scatter,
                    .dtype = input.dtype,
                    .count = counts.empty() ? output.count : sum(counts),
                    .fingerprint = fingerprint_of(counts),
                    .counts = counts,
                    .input = buffer(input),
                    .output = buffer(output),
                    .name = options.name},
                   op, options);
}

Operation alltoall(RankAndSize seat, ConstTensor input, Tensor output, const Options& options) {
  constexpr std::string_view kVerb = "alltoall";
  check_pair(kVerb, input, output);
  if (input.count != output.count)
    refuse(kVerb, text("the input has ", input.count, " elements but the output ", output.count));
  if (input.count % std::size_t(seat.size) != 0)
    refuse(kVerb, text("the ", input.count, " elements cannot be divided among ", seat.size, " ranks"));
  check_overlap(kVerb, input, output, nullptr, &output);
  return agreeing({.kind = Kind::alltoall,
                   .dtype = input.dtype,
                   .count = input.count / std::size_t(seat.size),
                   .input = buffer(input),
                   .output = buffer(output),
                   .name = options.name},
                  options.consistency_token);
}

Operation alltoall(RankAndSize seat, ConstTensor input, Tensor output, std::span<const std::uint64_t> send_counts,
                   std::span<const std::uint64_t> recv_counts, const Options& options) {
  constexpr std::string_view kVerb = "alltoall";
  check_pair(kVerb, input, output);
  check_counts(kVerb, "send counts", send_counts, input.dtype, seat.size);
  check_counts(kVerb, "receive counts", recv_counts, input.dtype, seat.size);
  check_whole(kVerb, "input", input.count, "", 0, send_counts, seat.size);
  check_whole(kVerb, "output", output.count, "", 0, recv_counts, seat.size);
  const std::uint64_t to_itself = send_counts[std::size_t(seat.rank)];
  const std::uint64_t from_itself = recv_counts[std::size_t(seat.rank)];
  if (to_itself != from_itself)
    refuse(kVerb, text("this rank sends ", to_itself, " elements to itself, but expects ", from_itself));
  check_overlap(kVerb, input, output, nullptr, &output);
  return agreeing({.kind = Kind::alltoall,
                   .dtype = input.dtype,
                   .fingerprint = 1,  // not the one of equal parts
                   .counts = send_counts,
                   .received = recv_counts,
                   .input = buffer(input),
                   .output = buffer(output),
                   .name = options.name},
                  options.consistency_token);
}

Operation exchange_of_counts(const Operation& alltoall, std::span<std::uint64_t> arriving) {
  return {.kind = Kind::alltoall,
          .dtype = DType::u64,
          .count = 1,
          .agreed = alltoall.received,
          .input = buffer(ConstTensor(alltoall.counts)),
          .output = buffer(Tensor(arriving)),
          .name = alltoall.name};
}

Operation transfer(ConstTensor input, Tensor output, const Options& options) {
  check_tensor("send", "tensor", input);
  check_tensor("recv", "tensor", output);
  return agreeing({.kind = Kind::transfer,
                   .dtype = input.dtype,
                   .count = std::max(input.count, output.count),
                   .root = 0,
                   .input = buffer(input),
                   .output = buffer(output),
                   .name = options.name},
                  options.consistency_token);
}

Operation barrier(const Options& options) {
  return agreeing({.kind = Kind::barrier, .name = options.name}, options.consistency_token);
}

}  // namespace anello::operations
