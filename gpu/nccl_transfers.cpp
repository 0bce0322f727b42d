// Between two ranks of an NCCL communicator.
#include "gpu/nccl.hpp"
#include "gpu/or_abort.hpp"

namespace anello::gpu {

void Nccl::send(ConstTensor tensor, int to, GpuStream stream, const Options& options) {
  transfer({tensor, to, true}, stream, options,
           [&](void* comm) { return table_->send(tensor.data, tensor.count, int(tensor.dtype), to, comm, stream); });
}

void Nccl::recv(Tensor tensor, int from, GpuStream stream, const Options& options) {
  transfer({tensor, from, false}, stream, options,
           [&](void* comm) { return table_->recv(tensor.data, tensor.count, int(tensor.dtype), from, comm, stream); });
}

// Not waited for, as in compare().
void Nccl::transfer(const Transfer& transfer, GpuStream stream, const Options& options, NcclCommunicator::Call call) {
  const auto& [tensor, peer, sends] = transfer;
  const NcclCall described{{.count = tensor.count, .dtype = tensor.dtype}, options.name, peer, sends};
  if (compare_) announce(described, options.consistency_token, stream);
  if (tensor.count > 0) or_abort(group_, [&] { communicator_->run(described, stream, call); });
}

void Nccl::announce(const NcclCall& call, std::uint64_t token, GpuStream stream) {
  refuse_capture(device_, stream, "a call with ANELLO_GPU_CHECK");
  const std::string what = call.describe();
  const Options options{.name = what, .consistency_token = fingerprint(token, call.signature.count)};
  if (call.sends)
    (void)group_.send_async(ConstTensor(nullptr, 0, call.signature.dtype), call.peer, options);
  else
    (void)group_.recv_async(Tensor(nullptr, 0, call.signature.dtype), call.peer, options);
}

// Both as one NCCL group: one behind the other, two ranks that both send first would wait for each other.
void Nccl::exchange(ConstTensor outgoing, int to, Tensor incoming, int from, GpuStream stream, const Options& options) {
  if (outgoing.count == 0) return recv(incoming, from, stream, options);
  if (incoming.count == 0) return send(outgoing, to, stream, options);
  if (compare_)
    announce({{.count = incoming.count, .dtype = incoming.dtype}, options.name, from, false}, options.consistency_token,
             stream);
  const int dtype = int(outgoing.dtype);
  transfer({outgoing, to, true}, stream, options, together([&](void* comm) {
             const int status = table_->send(outgoing.data, outgoing.count, dtype, to, comm, stream);
             if (status != 0 && status != ANELLO_NCCL_IN_PROGRESS) return status;
             return table_->recv(incoming.data, incoming.count, int(incoming.dtype), from, comm, stream);
           }));
}

}  // namespace anello::gpu
