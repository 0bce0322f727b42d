// The backend for ranks that share a GPU, or have no NCCL. Tensors go through pinned host memory and the group's
// collectives, in segments. At any time one segment is copied from the device, another is sent between the ranks, and a
// third is copied back. So a call takes about as long as the slowest of these three. A list of tensors is packed into
// segments. Only alltoall with counts is not cut, because its ranks would have different numbers of segments.
//
// Calls block until the result's last copy is queued. One thread at a time. A failure on the device aborts the world,
// because the other ranks wait for this rank.
#pragma once
#include <array>
#include <chrono>
#include <functional>

#include "gpu/collectives.hpp"
#include "gpu/device.hpp"
#include "gpu/segments.hpp"

namespace anello::gpu {

class Staged : public Collectives {
 public:
  struct Limits {
    std::size_t segment_bytes = 4 << 20;  // equal on all ranks; the fastest size from 16 MiB on (docs/notes/gpu.md)
    std::chrono::milliseconds copy{0};    // limit for one copy and the earlier work on the stream; 0: no limit
  };

  Staged(Group group, const Device& device, const Limits& limits);
  ~Staged() override;
  Staged(const Staged&) = delete;
  Staged& operator=(const Staged&) = delete;

  void carry_out(const Call& call, GpuStream stream) override;
  void exchange(const ConstTensor& outgoing, int to, const Tensor& incoming, int from, GpuStream stream,
                const Options& options) override;

  // Throws Error{unsupported} if the stream is being captured. Call before anything is queued, because queued work
  // would become part of the capture and spoil it.
  static void check_stream(const Device& device, GpuStream stream);
  // Ends the group on this rank. A running call throws soon, and later calls throw at once. Any thread.
  void give_up();

 private:
  // A segment in progress: its memory and the events of its two copies.
  struct Slot {
    PinnedMemory memory;
    Event downloaded, uploaded;
  };
  // Tensors that are cut into segments, and the collective of one segment. The collective blocks, because the calling
  // thread moves data faster than another thread, which must be woken for each segment. The copies need no thread.
  struct Segmented {
    std::size_t segments;
    std::function<void(std::size_t segment, EachPiece<const void*> each)> from;  // null if this rank sends nothing
    std::function<void(std::size_t segment, EachPiece<void*> each)> to;          // null if this rank receives nothing
    std::function<void(std::byte* memory, std::size_t segment)> collective;
  };
  static constexpr std::size_t kSlots = 3;  // one for the download, one for the collective, one for the upload

  template <Kind kind>
  void stage(const Call& call, GpuStream stream);
  void run_list(const Call& call, bool has_input, bool has_output, GpuStream stream,
                const std::function<void(Tensor segment)>& collective);
  void run_in_segments(const Segmented& tensors, GpuStream stream);
  void run_whole(const Call& call, GpuStream stream, const std::function<void(ConstTensor, Tensor)>& collective);
  std::size_t segment_elems(DType dtype) const { return limits_.segment_bytes / size_bytes(dtype); }
  void download(Slot& slot, const Segmented& tensors, std::size_t segment);
  void upload(Slot& slot, const Segmented& tensors, std::size_t segment);
  void begin(GpuStream stream);
  void end(GpuStream stream);
  template <class Body>
  void on_device(GpuStream stream, Body body);
  bool drain() noexcept;

  Group group_;
  Device device_;
  Limits limits_;
  Stream down_, up_;
  Event order_;
  std::array<Slot, kSlots> slots_;
  PinnedMemory input_, output_;  // memory for a call that is not cut into segments
  Event output_free_;            // done when output_ has been copied to the device
  std::size_t input_bytes_ = 0, output_bytes_ = 0;
};

}  // namespace anello::gpu
