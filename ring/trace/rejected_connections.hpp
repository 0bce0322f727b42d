// Counts rejected connections by reason. Any thread.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <string_view>

namespace anello::trace {

enum class RejectReason : std::uint8_t {
  noise,        // the connection's data is not this protocol, or not the expected message
  oversized,    // the connection announced a message longer than allowed
  version,      // the connection's protocol has another version
  silent,       // the connection's handshake was not complete in time
  gone,         // the peer closed the connection before the handshake was complete
  crowded_out,  // the connection was the oldest of too many unauthenticated ones
  job,          // the connection belongs to another job
  secret,       // the connection's proof of the secret was wrong or replayed
  generation,   // the connection belongs to an earlier world of the job
  place,        // the connection is meant for another rank's listener, or for a server
};
inline constexpr std::size_t kRejectReasons = std::size_t(RejectReason::place) + 1;
std::string_view name(RejectReason reason);

class RejectedConnections {
 public:
  using Counts = std::array<std::uint64_t, kRejectReasons>;

  void count(RejectReason reason) { counts_[std::size_t(reason)].fetch_add(1, std::memory_order_relaxed); }
  Counts counts() const;
  std::uint64_t total() const;

 private:
  std::array<std::atomic<std::uint64_t>, kRejectReasons> counts_{};
};

}  // namespace anello::trace
