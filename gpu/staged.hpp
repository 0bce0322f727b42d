// Collectives on GPU memory where NCCL cannot: several ranks that share a GPU, or no NCCL at all. Tensors go through
// pinned host memory and the group's collectives; where elements do not depend on their place (allreduce, reduce,
// broadcast) in segments, of which one is copied from the device, one is on its way between ranks and one is copied
// back at the same time, so that the whole takes about as long as the slowest of the three.
//
// The verbs, errors and rules are those of Group, with device memory for tensors and a stream: what was queued on the
// stream before the call is waited for, and what is queued after it finds the result. Calls block until the result's
// last copy is queued. One thread at a time. A failure on the device ends the world, since the others wait for this
// rank. Counts that differ by whole segments are no mismatch: the longer one's next segment meets whatever the other
// ranks call next, or stalls.
#pragma once
#include <anello/group.hpp>
#include <array>
#include <chrono>
#include <functional>
#include <string_view>

#include "gpu/device.hpp"

namespace anello::gpu {

class Staged {
 public:
  using Abort = std::function<void(std::string_view reason)>;  // ends the group's world
  struct Options {
    std::size_t segment_bytes = 1 << 20;  // the same on all ranks
    std::chrono::milliseconds limit{0};   // of one copy and what the stream had to do before it; 0: none
  };

  Staged(Group group, const Device& device, Abort abort, Options options);
  ~Staged();
  Staged(const Staged&) = delete;
  Staged& operator=(const Staged&) = delete;

  void allreduce(ConstTensor input, Tensor output, void* stream, Op op = Op::sum, const ReduceOptions& options = {});
  void reduce(ConstTensor input, Tensor output, int root, void* stream, Op op = Op::sum,
              const ReduceOptions& options = {});
  void broadcast(Tensor tensor, int root, void* stream, const anello::Options& options = {});
  void all_gather(ConstTensor input, Tensor output, void* stream, const PartOptions& options = {});
  void reduce_scatter(ConstTensor input, Tensor output, void* stream, Op op = Op::sum,
                      const ReduceOptions& options = {});
  void all_to_all(ConstTensor input, Tensor output, void* stream, const anello::Options& options = {});

 private:
  // Where one of the segments in flight lies, and its two copies.
  struct Slot {
    PinnedMemory memory;
    Event downloaded, uploaded;
    Work work;
  };
  // Of a collective that goes in segments: null where this rank has nothing to give, or gets nothing.
  struct Passage {
    const void* from;
    void* to;
    std::size_t count;
    DType dtype;
    std::function<Work(Tensor segment)> start;
  };
  static constexpr std::size_t kSlots = 3;  // a segment each for the way down, the ring and the way up

  void pass(const Passage& passage, void* stream);
  void whole(ConstTensor input, Tensor output, void* stream, const std::function<void(ConstTensor, Tensor)>& call);
  void download(Slot& slot, const void* from, std::size_t bytes);
  void upload(Slot& slot, void* to, std::size_t bytes);
  void begin(void* stream);
  void end(void* stream);
  template <class Body>
  void or_abort(Body body);
  void settle() noexcept;

  Group group_;
  Device device_;
  Abort abort_;
  Options options_;
  Stream down_, up_;
  Event order_;
  std::array<Slot, kSlots> slots_;
  PinnedMemory input_, output_;  // of collectives that go as a whole
  std::size_t input_bytes_ = 0, output_bytes_ = 0;
};

}  // namespace anello::gpu
