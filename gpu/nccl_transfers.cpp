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

void Nccl::send(ConstTensor tensor, int to, GpuStream stream, const Options& options) {
  transfer(sending(tensor, to, options), stream, options,
           [&](void* comm) { return table_->send(tensor.data, tensor.count, int(tensor.dtype), to, comm, stream); });
}

void Nccl::recv(Tensor tensor, int from, GpuStream stream, const Options& options) {
  transfer(receiving(tensor, from, options), stream, options,
           [&](void* comm) { return table_->recv(tensor.data, tensor.count, int(tensor.dtype), from, comm, stream); });
}

void Nccl::transfer(const NcclCall& described, GpuStream stream, const Options& options, NcclCommunicator::Call call) {
  if (compare_) announce(described, options.consistency_token, stream);
  if (described.signature.count > 0) or_abort(group_, [&] { communicator_->run(described, stream, call); });
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
void Nccl::exchange(ConstTensor outgoing, int to, Tensor incoming, int from, GpuStream stream, const Options& options) {
  const NcclCall sends = sending(outgoing, to, options), receives = receiving(incoming, from, options);
  if (compare_) {
    announce(receives, options.consistency_token, stream);
    announce(sends, options.consistency_token, stream);
  }
  if (outgoing.count + incoming.count == 0) return;
  const auto both = together([&](void* comm) {
    int status = 0;
    if (outgoing.count > 0) status = table_->send(outgoing.data, outgoing.count, int(outgoing.dtype), to, comm, stream);
    if (incoming.count == 0 || failed(status)) return status;
    return table_->recv(incoming.data, incoming.count, int(incoming.dtype), from, comm, stream);
  });
  or_abort(group_, [&] { communicator_->run(outgoing.count > 0 ? sends : receives, stream, both); });
}

}  // namespace anello::gpu
