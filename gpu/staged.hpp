// Collectives on GPU memory where NCCL cannot: several ranks that share a GPU, or no NCCL at all. Tensors go through
// pinned host memory and the group's collectives; where elements do not depend on their place (allreduce, reduce,
// broadcast) in segments, of which one is copied from the device, one is on its way between ranks and one is copied
// back at the same time, so that the whole takes about as long as the slowest of the three.
//
// Calls block until the result's last copy is queued. One thread at a time. A failure on the device ends the world,
// since the others wait for this rank.
#pragma once
#include <array>
#include <chrono>
#include <functional>

#include "gpu/collectives.hpp"
#include "gpu/device.hpp"

namespace anello::gpu {

class Staged : public Collectives {
 public:
  struct Limits {
    std::size_t segment_bytes = 1 << 20;  // the same on all ranks
    std::chrono::milliseconds copy{0};    // of one copy and what the stream had to do before it; 0: none
  };

  Staged(Group group, const Device& device, const Limits& limits);
  ~Staged() override;
  Staged(const Staged&) = delete;
  Staged& operator=(const Staged&) = delete;

  void allreduce(ConstTensor input, Tensor output, void* stream, Op op, const ReduceOptions& options) override;
  void allreduce(std::span<const Tensor> list, void* stream, Op op, const ReduceOptions& options) override;
  void reduce(ConstTensor input, Tensor output, int root, void* stream, Op op, const ReduceOptions& options) override;
  void broadcast(std::span<const Tensor> list, int root, void* stream, const Options& options) override;
  void allgather(ConstTensor input, Tensor output, void* stream, const PartOptions& options) override;
  void gather(ConstTensor input, Tensor output, int root, void* stream, const PartOptions& options) override;
  void scatter(ConstTensor input, Tensor output, int root, void* stream, const PartOptions& options) override;
  void reduce_scatter(ConstTensor input, Tensor output, void* stream, Op op, const ReduceOptions& options) override;
  void alltoall(ConstTensor input, Tensor output, void* stream, const Options& options) override;
  void alltoall(ConstTensor input, Tensor output, Counts send_counts, Counts recv_counts, void* stream,
                const Options& options) override;
  void send(ConstTensor tensor, int to, void* stream, const Options& options) override;
  void recv(Tensor tensor, int from, void* stream, const Options& options) override;

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

  static std::uint64_t agreed(std::uint64_t number, std::size_t count);
  void pass(const Passage& passage, void* stream);
  void whole(ConstTensor input, Tensor output, void* stream, const std::function<void(ConstTensor, Tensor)>& call);
  void download(Slot& slot, const void* from, std::size_t bytes);
  void upload(Slot& slot, void* to, std::size_t bytes);
  void begin(void* stream);
  void end(void* stream);
  template <class Body>
  void carry_out(Body body);
  bool settle() noexcept;

  Group group_;
  Device device_;
  Limits limits_;
  Stream down_, up_;
  Event order_;
  std::array<Slot, kSlots> slots_;
  PinnedMemory input_, output_;  // of collectives that go as a whole
  std::size_t input_bytes_ = 0, output_bytes_ = 0;
};

}  // namespace anello::gpu
