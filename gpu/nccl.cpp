#include "gpu/nccl.hpp"

#include <algorithm>
#include <anello/error.hpp>
#include <bit>
#include <vector>

#include "gpu/or_abort.hpp"
#include "ring/base/text.hpp"
#include "ring/plan/parts.hpp"

namespace anello::gpu {
namespace {

std::byte* at(void* memory, std::uint64_t elems, DType dtype) {
  return static_cast<std::byte*>(memory) + elems * size_bytes(dtype);
}
const std::byte* at(const void* memory, std::uint64_t elems, DType dtype) {
  return static_cast<const std::byte*>(memory) + elems * size_bytes(dtype);
}

std::uint64_t fingerprint_of(std::span<const std::uint64_t> values, std::uint64_t before = 0) {
  for (const std::uint64_t value : values) before = fingerprint(before, value);
  return before;
}

Signature signature_of(const Call& call, std::uint64_t count) {
  return {.count = count,
          .fingerprint = fingerprint_of(call.counts),
          .root = call.root,
          .kind = call.kind,
          .op = call.op,
          .dtype = call.dtype};
}

bool is_sum(Op op) {
  return op == Op::sum || op == Op::average;
}

// NCCL computes an average by multiplying each contribution by 1/n, rounded to the elements' type. In 16-bit types the
// average is wrong by up to 0.4 %, unless n is a power of two.
bool is_biased_average(Op op, DType dtype, int size) {
  return op == Op::average && is_float(dtype) && size_bytes(dtype) == 2 && !std::has_single_bit(unsigned(size));
}

// True for an average whose factors NCCL multiplies in at least 32 bits.
bool multiplies_exactly(const Signature& signature) {
  return signature.op == Op::average && size_bytes(signature.dtype) >= 4;
}

// Returns the part of an average's divisor that is applied before the data is sent; the rest is applied at the end. The
// early part is the same as on the CPU: in f16 the sum may overflow although the average does not, and division by a
// power of two loses no bits except in subnormal numbers.
double early_divisor(DType dtype, int size) {
  return dtype == DType::f16 ? double(std::bit_ceil(unsigned(size))) : 1;
}

// Makes the signature of a call with a list of tensors, which is sent as one operation.
Signature signature_of(const Call& call, std::span<const Tensor> list) {
  Signature signature = signature_of(call, call.count);
  for (const Tensor& tensor : list) signature.fingerprint = fingerprint(signature.fingerprint, tensor.count);
  return signature;
}

// Calls function(0), ..., function(count - 1) until one of them returns a status (of the table) that is an error.
template <class Index, class Function>
int each_below(Index count, Function function) {
  for (Index i = 0; i < count; i++)
    if (const int status = function(i); failed(status)) return status;
  return 0;
}

template <class List, class Function>
int each_of(const List& list, Function function) {
  return each_below(list.size(), [&](std::size_t i) { return function(list[i]); });
}

}  // namespace

Nccl::Nccl(Group group, const Device& device, const Tables& tables, const NcclCommunicator::Limits& limits,
           bool compare, NcclCommunicator::StartFailure start_failure)
    : Nccl(group, device, std::make_unique<NcclCommunicator>(group, device, *tables.nccl, limits, start_failure),
           tables.kernels, compare) {}

Nccl::Nccl(Group group, const Device& device, std::unique_ptr<NcclCommunicator> communicator,
           const AnelloKernelTable* kernels, bool compare)
    : group_(std::move(group)),
      device_(device),
      table_(&communicator->table()),
      kernels_(kernels),
      pack_buffer_(kernels ? std::make_unique<PackBuffer>(device, *kernels) : nullptr),
      compare_(compare),
      communicator_(std::move(communicator)) {}

std::unique_ptr<Nccl> Nccl::split(Group group) {
  auto part = communicator_->split(group);
  return std::unique_ptr<Nccl>(new Nccl(std::move(group), device_, std::move(part), kernels_, compare_));
}

// Ignores prescale, because it may differ between ranks, and all ranks must get the same answer.
bool Nccl::can(const Call& call) const {
  if (!facts_of(call.kind).reduces) return true;
  if (call.wire) return call.kind == Kind::allreduce && pack_buffer_ && table_->has(int(*call.wire), int(call.op)) == 1;
  const bool scales = call.postscale == 1 || pack_buffer_ || is_sum(call.op);
  const bool divides = pack_buffer_ || !is_biased_average(call.op, call.dtype, group_.size());
  return scales && divides && table_->has(int(call.dtype), int(call.op)) == 1;
}

void Nccl::run(Signature signature, const Call& call, GpuStream stream, NcclCommunicator::Call how) {
  signature.sequence = calls_;
  const NcclCall described{signature, call.name};
  if (compare_) compare(described, call.token, stream);
  if (signature.count > 0) or_abort(group_, [&] { communicator_->run(described, stream, how); });
  calls_++;  // a refused call is not counted, because this rank may make the call again
}

// Compares a call between ranks. Does not wait for the result of the comparison: if the calls differ, the world fails,
// and the watcher then aborts the communicator.
void Nccl::compare(const NcclCall& call, std::uint64_t token, GpuStream stream) {
  refuse_capture(device_, stream, "a call with ANELLO_GPU_CHECK");
  Signature common = call.signature;
  common.sequence = 0;  // the numbers may differ between ranks, because a send is counted only on its two ranks
  EncodedSignature bytes;
  encode(common, bytes);
  std::uint64_t all = token;
  for (const char byte : bytes) all = fingerprint(all, std::uint64_t(byte));
  (void)group_.barrier_async({.name = call.describe(), .consistency_token = all});
}

Nccl::Launch Nccl::together(Nccl::Launch calls) const {
  return [this, calls = std::move(calls)](void* comm) {
    if (const int status = table_->group_start(); failed(status)) return status;
    const int status = calls(comm);
    const int ended = table_->group_end();
    return failed(status) ? status : ended;
  };
}

// Multiplies by the call's factors. prescale may differ between ranks, so the choice of the NCCL call must not depend
// on it. In NCCL's own average, which is a sum, every rank multiplies its input by 1/n anyway, so there the factors
// cost nothing. For all other reductions, kernels multiply before and after, because network switches cannot reduce a
// sum with factors. Without kernels, NCCL's sum with factors is the only way.
void Nccl::reduce_by(Signature signature, std::span<const ConstTensor> from, std::span<const Tensor> to,
                     const Call& call, GpuStream stream, const Reduce& reduce) {
  if (call.postscale != 1)
    signature.fingerprint = fingerprint(signature.fingerprint, std::bit_cast<std::uint64_t>(call.postscale));
  std::vector<const void*> inputs;
  for (const ConstTensor& tensor : from) inputs.push_back(tensor.data);
  const int op = int(signature.op);
  const auto scaled_call = [&](void* comm, int sum) { return reduce(inputs, sum, comm); };
  const auto run_it = [&](const NcclCommunicator::Call& how) { run(signature, call, stream, how); };
  const int size = group_.size();
  if (is_float(signature.dtype) && (pack_buffer_ ? multiplies_exactly(signature) : is_sum(signature.op)))
    return run_it(scaled(signature.dtype, call.prescale * call.postscale / (signature.op == Op::average ? size : 1),
                         scaled_call));
  if (!pack_buffer_ && call.prescale != 1) {
    group_.abort(text(name(signature.kind), ": a prescale with ", name(signature.op), " needs libanello_kernels.so"));
    throw *group_.failure();
  }
  or_abort(group_, [&] {
    const bool packs = call.prescale != 1 && signature.count > 0;
    const bool divides = is_biased_average(signature.op, signature.dtype, size);
    const double early = early_divisor(signature.dtype, size);
    const double late = call.postscale / (divides ? size / early : 1);
    if (packs) inputs = pack_buffer_->pack(from, signature.dtype, call.prescale, stream).parts;
    if (divides && early != 1)
      run_it(scaled(signature.dtype, 1 / early, scaled_call));
    else
      run_it([&](void* comm) { return reduce(inputs, divides ? int(Op::sum) : op, comm); });
    if (packs) pack_buffer_->release(stream);
    if (late != 1) pack_buffer_->scale(to, late, stream);
  });
}

Nccl::Launch Nccl::scaled(DType dtype, double factor, std::function<int(void* comm, int op)> call) const {
  return [this, dtype, factor, call = std::move(call)](void* comm) {
    int sum = 0;
    if (const int status = table_->scaled_sum_create(&sum, factor, int(dtype), comm); failed(status)) return status;
    const int status = call(comm, sum);
    const int destroyed = table_->scaled_sum_destroy(sum, comm);
    return status != 0 ? status : destroyed;
  };
}

// Returns a call that sends and receives these parts. Copies the part that this rank sends to itself on the device.
Nccl::Launch Nccl::moving(std::span<const Move> moves, DType dtype, GpuStream stream) {
  for (const Move& move : moves)
    if (move.peer == group_.rank() && move.from != move.to && move.to_count > 0)
      or_abort(group_, [&] {
        const DeviceGuard guard(device_);  // a null stream means the default stream of the current device
        copy(device_, move.to, move.from, move.to_count * size_bytes(dtype), stream);
      });
  return together([this, moves, dtype, stream](void* comm) {
    return each_of(moves, [&](const Move& move) {
      if (move.peer == group_.rank()) return 0;
      int status = 0;
      if (move.from_count > 0) status = table_->send(move.from, move.from_count, int(dtype), move.peer, comm, stream);
      if (!failed(status) && move.to_count > 0)
        status = table_->recv(move.to, move.to_count, int(dtype), move.peer, comm, stream);
      return status;
    });
  });
}

// The casts also multiply by the factors, and divide for an average.
void Nccl::queue_packed(Signature signature, std::span<const ConstTensor> from, std::span<const Tensor> to,
                        const Call& call, GpuStream stream) {
  const bool averages = call.op == Op::average;
  const double early = averages ? early_divisor(*call.wire, group_.size()) : 1;
  const double late = averages ? group_.size() / early : 1;
  signature.wire = *call.wire;
  or_abort(group_, [&] {
    const Tensor all = pack_buffer_->pack(from, *call.wire, call.prescale / early, stream).all;
    run(signature, call, stream, [&](void* comm) {
      return table_->allreduce(all.data, all.data, all.count, int(all.dtype), int(averages ? Op::sum : call.op), comm,
                               stream);
    });
    pack_buffer_->unpack(to, *call.wire, call.postscale / late, stream);
  });
}

void Nccl::queue_list(const Call& call, GpuStream stream) {
  const std::vector<Tensor> to = tensors_of(call.output, call.dtype), in = tensors_of(call.input, call.dtype);
  const std::vector<ConstTensor> from(in.begin(), in.end());
  const Signature signature = signature_of(call, to);
  if (call.wire) return queue_packed(signature, from, to, call, stream);
  reduce_by(signature, from, to, call, stream, [&](std::span<const void* const> inputs, int reduction, void* all) {
    const auto each = [&](void* comm) {
      return each_below(to.size(), [&](std::size_t i) {
        if (to[i].count == 0) return 0;
        return table_->allreduce(inputs[i], to[i].data, to[i].count, int(to[i].dtype), reduction, comm, stream);
      });
    };
    return to.size() == 1 ? each(all) : together(each)(all);
  });
}

// Most calls have no list, no factors and no other wire type. Such calls allocate no memory.
template <>
void Nccl::queue<Kind::allreduce>(const Call& call, GpuStream stream) {
  const bool plain = pack_buffer_ && call.output.list().empty() && !call.wire && call.prescale == 1 &&
                     call.postscale == 1 && !is_biased_average(call.op, call.dtype, group_.size());
  if (!plain) return queue_list(call, stream);
  const Tensor input = tensor_of(call.input, call.dtype), output = tensor_of(call.output, call.dtype);
  run(signature_of(call, std::span(&output, 1)), call, stream, [&](void* comm) {
    return table_->allreduce(input.data, output.data, input.count, int(input.dtype), int(call.op), comm, stream);
  });
}

template <>
void Nccl::queue<Kind::reduce>(const Call& call, GpuStream stream) {
  const ConstTensor input = tensor_of(call.input, call.dtype);
  const Tensor output = tensor_of(call.output, call.dtype);
  reduce_by(signature_of(call, call.count), std::span(&input, 1), std::span(&output, 1), call, stream,
            [&](std::span<const void* const> inputs, int reduction, void* comm) {
              return table_->reduce(inputs[0], output.data, input.count, int(input.dtype), reduction, call.root, comm,
                                    stream);
            });
}

template <>
void Nccl::queue<Kind::broadcast>(const Call& call, GpuStream stream) {
  const std::vector<Tensor> list = tensors_of(call.output, call.dtype);
  run(signature_of(call, list), call, stream, together([&](void* comm) {
        return each_of(list, [&](const Tensor& tensor) {
          if (tensor.count == 0) return 0;
          return table_->broadcast(tensor.data, tensor.data, tensor.count, int(tensor.dtype), call.root, comm, stream);
        });
      }));
}

// If parts have unequal sizes, makes one broadcast for each part.
template <>
void Nccl::queue<Kind::allgather>(const Call& call, GpuStream stream) {
  const ConstTensor input = tensor_of(call.input, call.dtype);
  const Tensor output = tensor_of(call.output, call.dtype);
  const Signature signature = signature_of(call, output.count);
  if (call.counts.empty())
    return run(signature, call, stream, [&](void* comm) {
      return table_->allgather(input.data, output.data, input.count, int(call.dtype), comm, stream);
    });
  const plan::Parts parts(group_.size(), 0, call.counts);
  const auto each_part = [&](void* comm) {
    return each_below(group_.size(), [&](int rank) {
      const plan::Range part = parts.of(rank);
      if (part.count == 0) return 0;
      void* const to = at(output.data, part.begin, call.dtype);
      const void* const from = rank == group_.rank() ? input.data : to;
      return table_->broadcast(from, to, part.count, int(call.dtype), rank, comm, stream);
    });
  };
  run(signature, call, stream, together(each_part));
}

template <>
void Nccl::queue<Kind::gather>(const Call& call, GpuStream stream) {
  const ConstTensor input = tensor_of(call.input, call.dtype);
  const Tensor output = tensor_of(call.output, call.dtype);
  const bool is_root = group_.rank() == call.root;
  const plan::Parts parts(group_.size(), input.count, call.counts);
  std::vector<Move> moves;
  if (!is_root) moves.push_back({call.root, input.data, input.count, nullptr, 0});
  for (int rank = 0; is_root && rank < group_.size(); rank++)
    moves.push_back({rank, rank == call.root ? input.data : nullptr, 0,
                     at(output.data, parts.of(rank).begin, call.dtype), parts.of(rank).count});
  run(signature_of(call, parts.whole()), call, stream, moving(moves, call.dtype, stream));
}

template <>
void Nccl::queue<Kind::scatter>(const Call& call, GpuStream stream) {
  const ConstTensor input = tensor_of(call.input, call.dtype);
  const Tensor output = tensor_of(call.output, call.dtype);
  const bool is_root = group_.rank() == call.root;
  const plan::Parts parts(group_.size(), output.count, call.counts);
  std::vector<Move> moves;
  if (!is_root) moves.push_back({call.root, nullptr, 0, output.data, output.count});
  for (int rank = 0; is_root && rank < group_.size(); rank++)
    moves.push_back({rank, at(input.data, parts.of(rank).begin, call.dtype), parts.of(rank).count,
                     rank == call.root ? output.data : nullptr, rank == call.root ? output.count : 0});
  run(signature_of(call, parts.whole()), call, stream, moving(moves, call.dtype, stream));
}

// If parts have unequal sizes, makes one reduction for each rank.
template <>
void Nccl::queue<Kind::reduce_scatter>(const Call& call, GpuStream stream) {
  const int dtype = int(call.dtype);
  const ConstTensor input = tensor_of(call.input, call.dtype);
  const Tensor output = tensor_of(call.output, call.dtype);
  const plan::Parts parts(group_.size(), output.count, call.counts);
  reduce_by(signature_of(call, parts.whole()), std::span(&input, 1), std::span(&output, 1), call, stream,
            [&](std::span<const void* const> inputs, int reduction, void* all) {
              if (call.counts.empty())
                return table_->reduce_scatter(inputs[0], output.data, output.count, dtype, reduction, all, stream);
              return together([&](void* comm) {
                return each_below(group_.size(), [&](int rank) {
                  const plan::Range part = parts.of(rank);
                  if (part.count == 0) return 0;
                  const void* const from = at(inputs[0], part.begin, call.dtype);
                  return table_->reduce(from, output.data, part.count, dtype, reduction, rank, comm, stream);
                });
              })(all);
            });
}

// Compares the counts before the call, because ranks that disagree on a count would wait for ever.
void Nccl::compare_counts(const Call& call) {
  std::vector<std::uint64_t> arriving(call.counts.size());
  group_.alltoall(ConstTensor(call.counts), arriving, {call.name, call.token});
  for (int rank = 0; rank < group_.size(); rank++)
    if (const std::uint64_t sent = arriving[std::size_t(rank)], expected = call.received[std::size_t(rank)];
        sent != expected) {
      group_.abort(text("alltoall: rank ", rank, " sends ", sent, " elements to rank ", group_.rank(),
                        ", but that rank expects ", expected));
      throw *group_.failure();
    }
}

// If parts are unequal, the signature has the count 1 on all ranks, because even a rank that moves no data takes part.
template <>
void Nccl::queue<Kind::alltoall>(const Call& call, GpuStream stream) {
  const bool equal = call.counts.empty();
  if (!equal) compare_counts(call);
  const ConstTensor input = tensor_of(call.input, call.dtype);
  const Tensor output = tensor_of(call.output, call.dtype);
  const plan::Parts outgoing(group_.size(), call.count, call.counts);
  const plan::Parts incoming(group_.size(), call.count, call.received);
  std::vector<Move> moves;
  for (int rank = 0; rank < group_.size(); rank++)
    moves.push_back({rank, at(input.data, outgoing.of(rank).begin, call.dtype), outgoing.of(rank).count,
                     at(output.data, incoming.of(rank).begin, call.dtype), incoming.of(rank).count});
  run({.count = equal ? input.count : 1, .kind = Kind::alltoall, .dtype = call.dtype}, call, stream,
      moving(moves, call.dtype, stream));
}

void Nccl::carry_out(const Call& call, GpuStream stream) {
  by_kind(call.kind, [&](auto kind) { queue<kind()>(call, stream); });
}

}  // namespace anello::gpu
