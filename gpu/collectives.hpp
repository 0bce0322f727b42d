// The interface of a backend that moves GPU tensors: it carries out the calls of Group on tensors in device memory. A
// call waits for the work that is already queued on the stream; work queued later sees the call's result. The caller
// must have checked that all tensors are on the group's device. One thread at a time.
#pragma once
#include <anello/gpu.hpp>
#include <type_traits>
#include <vector>

#include "ring/base/check.hpp"
#include "ring/group/call.hpp"

namespace anello::gpu {

using group::Call;

class Collectives {
 public:
  static constexpr int kNobody = -1;
  virtual ~Collectives() = default;

  // Queues a collective on tensors.
  virtual void carry_out(const Call& call, GpuStream stream) = 0;
  // Queues two transfers at once: sends `outgoing` to rank `to`, and receives `incoming` from rank `from`. If `to` or
  // `from` is kNobody, leaves out that transfer.
  virtual void exchange(const ConstTensor& outgoing, int to, const Tensor& incoming, int from, GpuStream stream,
                        const Options& options) = 0;

  void send(const ConstTensor& tensor, int to, GpuStream stream, const Options& options) {
    exchange(tensor, to, Tensor(nullptr, 0, tensor.dtype), kNobody, stream, options);
  }
  void recv(const Tensor& tensor, int from, GpuStream stream, const Options& options) {
    exchange(ConstTensor(nullptr, 0, tensor.dtype), kNobody, tensor, from, stream, options);
  }
};

// Calls carry_out(std::integral_constant<Kind, kind>()), for backends that have a function template for each kind.
// Barriers and transfers have separate functions.
template <class CarryOut>
void by_kind(Kind kind, CarryOut carry_out) {
  switch (kind) {
#define ANELLO_COLLECTIVE(name, ...)                                           \
  case Kind::name:                                                             \
    if constexpr (Kind::name != Kind::barrier && Kind::name != Kind::transfer) \
      return carry_out(std::integral_constant<Kind, Kind::name>());            \
    break;
#include "ring/base/collectives.def"
  }
  ANELLO_CHECK(false);
}

// Returns the tensor of a call without a list. For a list, use tensors_of().
inline Tensor tensor_of(const run::Buffer& buffer, DType dtype) {
  const Bytes all = buffer.run(0, UINT64_MAX, 0);  // with a shift of 0, the size of the run is its number of elements
  return {all.data(), all.size(), dtype};
}
// Returns the list's tensors that have elements; without a list, the call's tensor.
inline std::vector<Tensor> tensors_of(const run::Buffer& buffer, DType dtype) {
  if (buffer.list().empty()) return {tensor_of(buffer, dtype)};
  std::vector<Tensor> list;
  for (const run::Buffer::Piece& piece : buffer.list()) list.emplace_back(piece.data, piece.count, dtype);
  return list;
}
// Returns the options of a call that reduces, so that a similar call can be made.
inline ReduceOptions options_of(const Call& call) {
  ReduceOptions options{.name = call.name,
                        .algorithm = call.algorithm,
                        .wire = call.wire,
                        .prescale = call.prescale,
                        .postscale = call.postscale,
                        .counts = call.counts,
                        .consistency_token = call.token};
  if (call.slab_bytes != algorithms::kSuitableSlab) options.slab_bytes = call.slab_bytes;
  return options;
}

}  // namespace anello::gpu
