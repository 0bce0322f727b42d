// Connections that were turned away, by what was wrong with them. Counted and read by any thread.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <string_view>

namespace anello {

enum class RejectReason : std::uint8_t {
  noise,        // what it said is not this protocol, or not what its turn was
  oversized,    // it announced more than is ever read
  version,      // it speaks another version of the protocol
  silent,       // it did not say all in time
  gone,         // its connection ended before
  crowded_out,  // it was the oldest of too many that had not said all
  job,          // it belongs to another job
  secret,       // it could not prove that it knows the secret (which a replayed proof does not either)
  generation,   // it belongs to an earlier world of the job
  place,        // it has no business here: another rank's listener, or a server's
};
inline constexpr std::size_t kStrangers = std::size_t(RejectReason::place) + 1;
std::string_view name(RejectReason reason);

class RejectedConnections {
 public:
  using Counts = std::array<std::uint64_t, kStrangers>;

  void count(RejectReason reason) { counts_[std::size_t(reason)].fetch_add(1, std::memory_order_relaxed); }
  Counts counts() const;
  std::uint64_t total() const;

 private:
  std::array<std::atomic<std::uint64_t>, kStrangers> counts_{};
};

}  // namespace anello
