// A link through shared memory: a pipe each way in one segment, and each side's bell (an eventfd) for when it sleeps.
// A peer that dies is noticed by the control plane alone: memory has no end of file.
#pragma once
#include "ring/link/link.hpp"
#include "ring/shm/pipe.hpp"
#include "ring/shm/segment.hpp"

namespace anello {

class ShmLink final : public Link {
 public:
  // Of a segment for pipes that hold `pipe_bytes` each, a multiple of kLineBytes.
  static std::size_t segment_bytes(std::size_t pipe_bytes);

  enum class Side { maker, taker };
  // `bell` is the other side's.
  ShmLink(Segment segment, std::size_t pipe_bytes, Side side, Descriptor bell);

  std::size_t send_from(std::span<const ConstBytes> pieces) override;
  std::size_t recv_into(std::span<const Bytes> pieces) override;
  bool peeks() const override { return true; }
  ConstBytes peek() override;
  void consume(std::size_t bytes) override;
  void begin(bool sending) override;
  int descriptor() const override { return -1; }
  bool may_sleep(bool sending) override;

 private:
  // Little enough for the other side to begin while this one goes on.
  static constexpr std::size_t kBiteBytes = 32 << 10;

  Segment segment_;
  PipeWriter out_;
  PipeReader in_;
  Descriptor bell_;
};

}  // namespace anello
