#include "gpu/nccl.hpp"

#include <algorithm>
#include <anello/error.hpp>
#include <bit>
#include <vector>

#include "gpu/or_abort.hpp"
#include "ring/base/check.hpp"
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

Signature signature_of(const GpuCall& call, std::uint64_t count) {
  return {.count = count,
          .fingerprint = fingerprint_of(call.options.counts),
          .root = call.root,
          .kind = call.kind,
          .op = call.op,
          .dtype = call.input.dtype};
}

bool is_sum(Op op) {
  return op == Op::sum || op == Op::average;
}

// NCCL's average multiplies each contribution by 1/n, rounded to the type. In 16 bits this is wrong by up to 0.4 %,
// unless n is a power of two.
bool is_biased_average(Op op, DType dtype, int size) {
  return op == Op::average && is_float(dtype) && size_bytes(dtype) == 2 && !std::has_single_bit(unsigned(size));
}

// Whether this is an average whose factors NCCL multiplies in at least 32 bits.
bool multiplies_exactly(const Signature& signature) {
  return signature.op == Op::average && size_bytes(signature.dtype) >= 4;
}

// Returns the divisor of an average that is applied before the data is sent; the rest of the division follows at the
// end. As on the CPU: in f16 the sum may overflow although the mean does not, and a power of two loses no bits except
// in subnormal numbers.
double early_divisor(DType dtype, int size) {
  return dtype == DType::f16 ? double(std::bit_ceil(unsigned(size))) : 1;
}

// Adds to the signature what must be equal on all ranks. A list is sent as one operation.
void sign(Signature& signature, std::span<const Tensor> list) {
  signature.dtype = list[0].dtype;
  for (const Tensor& tensor : list) {
    signature.count += tensor.count;
    signature.fingerprint = fingerprint(signature.fingerprint, tensor.count);
  }
}

// Calls function(0), ..., function(count - 1), which return a status of the table, until one fails.
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

// Ignores prescale, which may differ between ranks, because all ranks must get the same answer.
bool Nccl::can(Kind kind, DType dtype, Op op, const ReduceOptions& options) const {
  if (options.wire) return kind == Kind::allreduce && pack_buffer_ && table_->has(int(*options.wire), int(op)) == 1;
  const bool scales = options.postscale == 1 || pack_buffer_ || is_sum(op);
  const bool divides = pack_buffer_ || !is_biased_average(op, dtype, group_.size());
  return scales && divides && table_->has(int(dtype), int(op)) == 1;
}

void Nccl::carry_out(const GpuCall& call) {
  switch (call.kind) {
    case Kind::allreduce:
      return queue_allreduce(call);
    case Kind::reduce:
      return queue_reduce(call);
    case Kind::broadcast:
      return queue_broadcast(call);
    case Kind::allgather:
      return queue_allgather(call);
    case Kind::gather:
      return queue_gather(call);
    case Kind::scatter:
      return queue_scatter(call);
    case Kind::reduce_scatter:
      return queue_reduce_scatter(call);
    case Kind::alltoall:
      return queue_alltoall(call);
    case Kind::transfer:
      return queue_transfer(call);
    case Kind::barrier:
      break;
  }
  ANELLO_CHECK(!"an operation on tensors");
}

void Nccl::run(Signature signature, const GpuCall& call, NcclCommunicator::Call how) {
  signature.sequence = calls_;
  const NcclCall described{signature, call.options.name};
  if (compare_) compare(described, call.options.consistency_token, call.stream);
  if (signature.count > 0) or_abort(group_, [&] { communicator_->run(described, call.stream, how); });
  calls_++;  // not if the call is refused: then the world goes on, and this rank makes the call again
}

// Compares a call between ranks. Not waited for: a difference fails the world, and the watcher then aborts the
// communicator.
void Nccl::compare(const NcclCall& call, std::uint64_t token, GpuStream stream) {
  refuse_capture(device_, stream, "a call with ANELLO_GPU_CHECK");
  Signature common = call.signature;
  common.sequence = 0;  // send and recv are numbered on two ranks only
  EncodedSignature bytes;
  encode(common, bytes);
  std::uint64_t all = token;
  for (const char byte : bytes) all = fingerprint(all, std::uint64_t(byte));
  (void)group_.barrier_async({.name = call.describe(), .consistency_token = all});
}

Nccl::Call Nccl::together(Nccl::Call calls) const {
  return [this, calls = std::move(calls)](void* comm) {
    if (const int status = table_->group_start(); failed(status)) return status;
    const int status = calls(comm);
    const int ended = table_->group_end();
    return failed(status) ? status : ended;
  };
}

// prescale may differ between ranks, so it must not change which NCCL call is queued. NCCL's own average is a sum in
// which every rank multiplies its input by 1/n, and other factors can be multiplied there at no cost. For the other
// reductions, kernels multiply before and after, because network switches cannot reduce a sum with factors. Without
// kernels, NCCL's sum with factors is the only way.
void Nccl::reduce_by(Signature signature, std::span<const ConstTensor> from, std::span<const Tensor> to,
                     const GpuCall& call, const Reduce& reduce) {
  const ReduceOptions& options = call.options;
  if (options.postscale != 1)
    signature.fingerprint = fingerprint(signature.fingerprint, std::bit_cast<std::uint64_t>(options.postscale));
  std::vector<const void*> inputs;
  for (const ConstTensor& tensor : from) inputs.push_back(tensor.data);
  const int op = int(signature.op);
  const auto scaled_call = [&](void* comm, int sum) { return reduce(inputs, sum, comm); };
  const auto run_it = [&](const NcclCommunicator::Call& how) { run(signature, call, how); };
  const int size = group_.size();
  if (is_float(signature.dtype) && (pack_buffer_ ? multiplies_exactly(signature) : is_sum(signature.op)))
    return run_it(scaled(signature.dtype,
                         options.prescale * options.postscale / (signature.op == Op::average ? size : 1), scaled_call));
  if (!pack_buffer_ && options.prescale != 1) {
    group_.abort(text(name(signature.kind), ": a factor before ", name(signature.op), " needs libanello_kernels.so"));
    throw *group_.failure();
  }
  or_abort(group_, [&] {
    const bool packs = options.prescale != 1 && signature.count > 0;
    const bool divides = is_biased_average(signature.op, signature.dtype, size);
    const double early = early_divisor(signature.dtype, size);
    const double late = options.postscale / (divides ? size / early : 1);
    if (packs) inputs = pack_buffer_->pack(from, signature.dtype, options.prescale, call.stream).parts;
    if (divides && early != 1)
      run_it(scaled(signature.dtype, 1 / early, scaled_call));
    else
      run_it([&](void* comm) { return reduce(inputs, divides ? int(Op::sum) : op, comm); });
    if (packs) pack_buffer_->release(call.stream);
    if (late != 1) pack_buffer_->scale(to, late, call.stream);
  });
}

Nccl::Call Nccl::scaled(DType dtype, double factor, std::function<int(void* comm, int op)> call) const {
  return [this, dtype, factor, call = std::move(call)](void* comm) {
    int sum = 0;
    if (const int status = table_->scaled_sum_create(&sum, factor, int(dtype), comm); failed(status)) return status;
    const int status = call(comm, sum);
    const int destroyed = table_->scaled_sum_destroy(sum, comm);
    return status != 0 ? status : destroyed;
  };
}

// A part that a rank sends to itself is copied on the device.
Nccl::Call Nccl::moving(std::span<const Move> moves, DType dtype, GpuStream stream) {
  for (const Move& move : moves)
    if (move.peer == group_.rank() && move.from != move.to && move.to_count > 0)
      or_abort(group_, [&] {
        const DeviceGuard guard(device_);  // a null stream is the default stream of the current device
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

// The casts multiply by the factors, and divide for an average.
void Nccl::queue_allreduce_packed(Signature signature, std::span<const ConstTensor> from, std::span<const Tensor> to,
                                  const GpuCall& call) {
  const ReduceOptions& options = call.options;
  const bool averages = signature.op == Op::average;
  const double early = averages ? early_divisor(*options.wire, group_.size()) : 1;
  const double late = averages ? group_.size() / early : 1;
  signature.wire = *options.wire;
  or_abort(group_, [&] {
    const Tensor all = pack_buffer_->pack(from, *options.wire, options.prescale / early, call.stream).all;
    run(signature, call, [&](void* comm) {
      return table_->allreduce(all.data, all.data, all.count, int(all.dtype), int(averages ? Op::sum : signature.op),
                               comm, call.stream);
    });
    pack_buffer_->unpack(to, *options.wire, options.postscale / late, call.stream);
  });
}

void Nccl::queue_allreduce_all(std::span<const ConstTensor> from, std::span<const Tensor> to, const GpuCall& call) {
  Signature signature{.kind = Kind::allreduce, .op = call.op};
  sign(signature, to);
  if (call.options.wire) return queue_allreduce_packed(signature, from, to, call);
  reduce_by(signature, from, to, call, [&](std::span<const void* const> inputs, int reduction, void* all) {
    const auto each = [&](void* comm) {
      return each_below(to.size(), [&](std::size_t i) {
        if (to[i].count == 0) return 0;
        return table_->allreduce(inputs[i], to[i].data, to[i].count, int(to[i].dtype), reduction, comm, call.stream);
      });
    };
    return to.size() == 1 ? each(all) : together(each)(all);
  });
}

// Most calls are plain; they allocate no memory.
void Nccl::queue_allreduce(const GpuCall& call) {
  const ConstTensor& input = call.input;
  const Tensor& output = call.output;
  if (!call.list.empty())
    return queue_allreduce_all(std::vector<ConstTensor>(call.list.begin(), call.list.end()), call.list, call);
  const bool plain = pack_buffer_ && !call.options.wire && call.options.prescale == 1 && call.options.postscale == 1 &&
                     !is_biased_average(call.op, input.dtype, group_.size());
  if (!plain) return queue_allreduce_all(std::span(&input, 1), std::span(&output, 1), call);
  Signature signature{.kind = Kind::allreduce, .op = call.op};
  sign(signature, std::span(&output, 1));
  run(signature, call, [&](void* comm) {
    return table_->allreduce(input.data, output.data, input.count, int(input.dtype), int(call.op), comm, call.stream);
  });
}

void Nccl::queue_reduce(const GpuCall& call) {
  const ConstTensor& input = call.input;
  const Tensor output = group_.rank() == call.root ? call.output : Tensor(nullptr, 0, input.dtype);
  reduce_by(signature_of(call, input.count), std::span(&input, 1), std::span(&output, 1), call,
            [&](std::span<const void* const> inputs, int reduction, void* comm) {
              return table_->reduce(inputs[0], output.data, input.count, int(input.dtype), reduction, call.root, comm,
                                    call.stream);
            });
}

void Nccl::queue_broadcast(const GpuCall& call) {
  Signature signature{.root = call.root, .kind = Kind::broadcast};
  sign(signature, call.list);
  run(signature, call, together([&](void* comm) {
        return each_of(call.list, [&](const Tensor& tensor) {
          if (tensor.count == 0) return 0;
          return table_->broadcast(tensor.data, tensor.data, tensor.count, int(tensor.dtype), call.root, comm,
                                   call.stream);
        });
      }));
}

// For unequal parts: one broadcast for each part.
void Nccl::queue_allgather(const GpuCall& call) {
  const int dtype = int(call.input.dtype);
  const Signature signature = signature_of(call, call.output.count);
  if (call.options.counts.empty())
    return run(signature, call, [&](void* comm) {
      return table_->allgather(call.input.data, call.output.data, call.input.count, dtype, comm, call.stream);
    });
  const plan::Parts parts(group_.size(), 0, call.options.counts);
  const auto each_part = [&](void* comm) {
    return each_below(group_.size(), [&](int rank) {
      const plan::Range part = parts.of(rank);
      if (part.count == 0) return 0;
      void* const to = at(call.output.data, part.begin, call.output.dtype);
      const void* const from = rank == group_.rank() ? call.input.data : to;
      return table_->broadcast(from, to, part.count, dtype, rank, comm, call.stream);
    });
  };
  run(signature, call, together(each_part));
}

void Nccl::queue_gather(const GpuCall& call) {
  const bool is_root = group_.rank() == call.root;
  const plan::Parts parts(group_.size(), call.input.count, call.options.counts);
  std::vector<Move> moves;
  if (!is_root) moves.push_back({call.root, call.input.data, call.input.count, nullptr, 0});
  for (int rank = 0; is_root && rank < group_.size(); rank++)
    moves.push_back({rank, rank == call.root ? call.input.data : nullptr, 0,
                     at(call.output.data, parts.of(rank).begin, call.output.dtype), parts.of(rank).count});
  run(signature_of(call, parts.whole()), call, moving(moves, call.input.dtype, call.stream));
}

void Nccl::queue_scatter(const GpuCall& call) {
  const bool is_root = group_.rank() == call.root;
  const plan::Parts parts(group_.size(), call.output.count, call.options.counts);
  std::vector<Move> moves;
  if (!is_root) moves.push_back({call.root, nullptr, 0, call.output.data, call.output.count});
  for (int rank = 0; is_root && rank < group_.size(); rank++)
    moves.push_back({rank, at(call.input.data, parts.of(rank).begin, call.output.dtype), parts.of(rank).count,
                     rank == call.root ? call.output.data : nullptr, rank == call.root ? call.output.count : 0});
  run(signature_of(call, parts.whole()), call, moving(moves, call.output.dtype, call.stream));
}

// For unequal parts: one reduction to each rank.
void Nccl::queue_reduce_scatter(const GpuCall& call) {
  const int dtype = int(call.input.dtype);
  const plan::Parts parts(group_.size(), call.output.count, call.options.counts);
  reduce_by(signature_of(call, parts.whole()), std::span(&call.input, 1), std::span(&call.output, 1), call,
            [&](std::span<const void* const> inputs, int reduction, void* all) {
              if (call.options.counts.empty())
                return table_->reduce_scatter(inputs[0], call.output.data, call.output.count, dtype, reduction, all,
                                              call.stream);
              return together([&](void* comm) {
                return each_below(group_.size(), [&](int rank) {
                  const plan::Range part = parts.of(rank);
                  if (part.count == 0) return 0;
                  const void* const from = at(inputs[0], part.begin, call.input.dtype);
                  return table_->reduce(from, call.output.data, part.count, dtype, reduction, rank, comm, call.stream);
                });
              })(all);
            });
}

// Ranks that disagree on a count would wait for ever, so the group exchanges the counts first.
void Nccl::compare_counts(const GpuCall& call) {
  const GpuCall::Counts send_counts = call.options.counts;
  std::vector<std::uint64_t> arriving(send_counts.size());
  group_.alltoall(ConstTensor(send_counts), arriving, call.common_options());
  for (int rank = 0; rank < group_.size(); rank++)
    if (const std::uint64_t sent = arriving[std::size_t(rank)], expected = call.recv_counts[std::size_t(rank)];
        sent != expected) {
      group_.abort(text("alltoall: rank ", rank, " sends ", sent, " elements, of which rank ", group_.rank(),
                        " expects ", expected));
      throw *group_.failure();
    }
}

// With unequal parts all ranks use one signature, because a rank that moves nothing takes part too.
void Nccl::queue_alltoall(const GpuCall& call) {
  const bool equal = call.options.counts.empty();
  if (!equal) compare_counts(call);
  const std::uint64_t each = call.input.count / std::uint64_t(group_.size());
  const plan::Parts outgoing(group_.size(), each, call.options.counts), incoming(group_.size(), each, call.recv_counts);
  const DType dtype = call.input.dtype;
  std::vector<Move> moves;
  for (int rank = 0; rank < group_.size(); rank++)
    moves.push_back({rank, at(call.input.data, outgoing.of(rank).begin, dtype), outgoing.of(rank).count,
                     at(call.output.data, incoming.of(rank).begin, dtype), incoming.of(rank).count});
  run({.count = equal ? call.input.count : 1, .kind = Kind::alltoall, .dtype = dtype}, call,
      moving(moves, dtype, call.stream));
}

}  // namespace anello::gpu
