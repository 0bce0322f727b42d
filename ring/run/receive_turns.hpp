// Chooses the receiving streams at which a pass looks: first the stream that is first in program order, then the other
// streams in turn, until two streams have had no data. After that another process should get the core.
#pragma once
#include <cstdint>
#include <limits>

namespace anello::run {

// skipped: the stream expects no bytes now; missed: its bytes have not arrived; moved: bytes were received.
enum class Look { skipped, missed, moved };

class ReceiveTurns {
 public:
  static constexpr std::uint64_t kEnded = std::numeric_limits<std::uint64_t>::max();

  // Resets the turns to the streams [begin, end).
  void start(std::uint32_t begin, std::uint32_t end) {
    begin_ = turn_ = begin;
    end_ = end;
  }

  // order_of(stream): the place in program order of the step for which the stream receives; kEnded if there is none.
  // receive(stream): receives and returns a Look; it may also be called for a stream that has ended. Returns true if
  // anything moved.
  template <class OrderOf, class Receive>
  bool pass(OrderOf order_of, Receive receive) {
    if (end_ - begin_ == 1) return receive(begin_) == Look::moved;
    std::uint32_t first = end_;
    for (std::uint64_t s = begin_, least = kEnded; s < end_; s++)
      if (const std::uint64_t order = order_of(std::uint32_t(s)); order < least) {
        least = order;
        first = std::uint32_t(s);
      }
    if (first == end_) return false;
    bool moved = false;
    int misses = 0;
    const auto look = [&](std::uint32_t s) {
      const Look found = receive(s);
      moved |= found == Look::moved;
      misses += found == Look::missed;
    };
    look(first);
    for (std::uint32_t k = begin_; k < end_ && misses < kMaxMisses; k++) {
      if (turn_ != first) look(turn_);
      if (++turn_ == end_) turn_ = begin_;
    }
    return moved;
  }

 private:
  static constexpr int kMaxMisses = 2;

  std::uint32_t begin_ = 0, end_ = 0, turn_ = 0;
};

}  // namespace anello::run
