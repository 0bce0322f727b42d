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

void Nccl::exchange(const ConstTensor& outgoing, int to, const Tensor& incoming, int from, GpuStream stream,
                    const Options& options) {
  const NcclCall sends = sending(outgoing, to, options), receives = receiving(incoming, from, options);
  const std::uint64_t token = options.consistency_token;
  if (to != kNobody && from != kNobody) return queue_both(sends, outgoing, receives, incoming, stream, token);
  const NcclCall& described = to != kNobody ? sends : receives;
  if (compare_) announce(described, token, stream);
  if (described.signature.count == 0) return;
  or_abort(group_, [&] {
    communicator_->run(described, stream, [&](void* comm) {
      return described.sends ? table_->send(outgoing.data, outgoing.count, int(outgoing.dtype), to, comm, stream)
                             : table_->recv(incoming.data, incoming.count, int(incoming.dtype), from, comm, stream);
    });
  });
}

// Compares a transfer with the peer. Like compare(), does not wait for the result.
void Nccl::announce(const NcclCall& call, std::uint64_t token, GpuStream stream) {
  refuse_capture(device_, stream, "a call with ANELLO_GPU_CHECK");
  const std::string what = call.describe();
  const Options options{.name = what, .consistency_token = fingerprint(token, call.signature.count)};
  if (call.sends)
    (void)group_.send_async(ConstTensor(nullptr, 0, call.signature.dtype), call.peer, options);
  else
    (void)group_.recv_async(Tensor(nullptr, 0, call.signature.dtype), call.peer, options);
}

// Queues both transfers as one NCCL group. In separate calls, two ranks that both send first would wait for each other.
// Both transfers are announced, even if one has no elements: the two peers may be different ranks, and neither has the
// count of the other transfer.
void Nccl::queue_both(const NcclCall& sends, const ConstTensor& outgoing, const NcclCall& receives,
                      const Tensor& incoming, GpuStream stream, std::uint64_t token) {
  if (compare_) {
    announce(receives, token, stream);
    announce(sends, token, stream);
  }
  if (outgoing.count + incoming.count == 0) return;
  const auto both = together([&](void* comm) {
    int status = 0;
    if (outgoing.count > 0)
      status = table_->send(outgoing.data, outgoing.count, int(outgoing.dtype), sends.peer, comm, stream);
    if (incoming.count == 0 || failed(status)) return status;
    return table_->recv(incoming.data, incoming.count, int(incoming.dtype), receives.peer, comm, stream);
  });
  or_abort(group_, [&] { communicator_->run(outgoing.count > 0 ? sends : receives, stream, both); });
}

}  // namespace anello::gpu
