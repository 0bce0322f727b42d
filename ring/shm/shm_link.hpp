// A link through shared memory: a pipe each way in one segment, and each side's bell (an eventfd) for when it sleeps.
// Large runs that lie in memory from anello::allocate are referred to: the other side maps that memory when it first
// hears of it, and reads there. A peer that dies is noticed by the control plane alone: memory has no end of file.
#pragma once
#include <deque>

#include "ring/link/link.hpp"
#include "ring/shm/byte_pipe.hpp"
#include "ring/shm/memory_file.hpp"

namespace anello {

class ShmLink final : public Link {
 public:
  // Of a segment for pipes that hold `pipe_bytes` each, a multiple of kLineBytes.
  static std::size_t segment_bytes(std::size_t pipe_bytes);

  enum class Side { maker, taker };
  // `bell` is the other side's; `fd_socket` one end of a Unix socket, on which files are passed.
  ShmLink(MemoryFile segment, std::size_t pipe_bytes, Side side, Descriptor bell, Descriptor fd_socket);

  std::size_t send_from(std::span<const ConstBytes> pieces) override;
  std::size_t recv_into(std::span<const Bytes> pieces) override;
  bool peeks() const override { return true; }
  ConstBytes peek() override;
  void consume(std::size_t bytes) override;
  void begin(bool sending, bool may_refer) override;
  int descriptor(bool /*sending*/) const override { return -1; }
  bool may_sleep(bool sending) override;

 private:
  // Little enough for the other side to begin while this one goes on.
  static constexpr std::size_t kBiteBytes = 32 << 10;
  // Less is copied sooner than it is waited for.
  static constexpr std::size_t kMinReferredBytes = 32 << 10;
  // Of the other side that are mapped at a time; both sides forget the oldest.
  static constexpr std::size_t kMaxRegions = 64;

  bool refer(const Place& place);
  ConstBytes memory_of(const Place& place);
  void map_next();

  MemoryFile segment_;
  PipeWriter out_;
  PipeReader in_;
  Descriptor bell_, courier_;
  bool may_refer_ = false;
  std::deque<std::uint64_t> told_;  // our regions that the other side has mapped
  struct Theirs {
    std::uint64_t number;
    MemoryFile segment;
  };
  std::deque<Theirs> theirs_;
};

}  // namespace anello
