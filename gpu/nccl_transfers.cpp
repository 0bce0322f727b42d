// Transfers between two ranks of an NCCL communicator.
#include "gpu/nccl.hpp"
#include "gpu/or_abort.hpp"

namespace anello::gpu {
namespace {

NcclCall sending(const ConstTensor& tensor, int to, const Options& options) {
  return {{.count = tensor.count, .dtype = tensor.dtype}, options.name, to, true};
}
NcclCall receiving(const Tensor& tensor, int from, const Options& options) {
  return {{.count = tensor.count, .dtype = tensor.dtype}, options.name, from, false};
}

}  // namespace

void Nccl::queue_transfer(const GpuCall& call) {
  const Options options = call.common_options();
  const NcclCall sends = sending(call.input, call.root, options), receives = receiving(call.output, call.from, options);
  if (call.root != GpuCall::kNobody && call.from != GpuCall::kNobody) return queue_exchange(call, sends, receives);
  const NcclCall& described = call.root != GpuCall::kNobody ? sends : receives;
  if (compare_) announce(described, options.consistency_token, call.stream);
  if (described.signature.count == 0) return;
  or_abort(group_, [&] {
    communicator_->run(described, call.stream, [&](void* comm) {
      return described.sends
                 ? table_->send(call.input.data, call.input.count, int(call.input.dtype), call.root, comm, call.stream)
                 : table_->recv(call.output.data, call.output.count, int(call.output.dtype), call.from, comm,
                                call.stream);
    });
  });
}

// Compares a transfer with the peer. Not waited for, as in compare().
void Nccl::announce(const NcclCall& call, std::uint64_t token, GpuStream stream) {
  refuse_capture(device_, stream, "a call with ANELLO_GPU_CHECK");
  const std::string what = call.describe();
  const Options options{.name = what, .consistency_token = fingerprint(token, call.signature.count)};
  if (call.sends)
    (void)group_.send_async(ConstTensor(nullptr, 0, call.signature.dtype), call.peer, options);
  else
    (void)group_.recv_async(Tensor(nullptr, 0, call.signature.dtype), call.peer, options);
}

// Queues both as one NCCL group: in separate calls, two ranks that both send first would wait for each other. Both are
// announced even without elements, because the peer does not have the element count of this rank's other direction.
void Nccl::queue_exchange(const GpuCall& call, const NcclCall& sends, const NcclCall& receives) {
  const ConstTensor& outgoing = call.input;
  const Tensor& incoming = call.output;
  if (compare_) {
    announce(receives, call.options.consistency_token, call.stream);
    announce(sends, call.options.consistency_token, call.stream);
  }
  if (outgoing.count + incoming.count == 0) return;
  const auto both = together([&](void* comm) {
    int status = 0;
    if (outgoing.count > 0)
      status = table_->send(outgoing.data, outgoing.count, int(outgoing.dtype), call.root, comm, call.stream);
    if (incoming.count == 0 || failed(status)) return status;
    return table_->recv(incoming.data, incoming.count, int(incoming.dtype), call.from, comm, call.stream);
  });
  or_abort(group_, [&] { communicator_->run(outgoing.count > 0 ? sends : receives, call.stream, both); });
}

}  // namespace anello::gpu
