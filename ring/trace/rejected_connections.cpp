#include "ring/trace/rejected_connections.hpp"

#include <numeric>

namespace anello::trace {

std::string_view name(RejectReason reason) {
  constexpr std::array<std::string_view, kRejectReasons> kNames{
      "noise", "oversized", "version", "silent", "gone", "crowded_out", "job", "secret", "generation", "place"};
  return kNames[std::size_t(reason)];
}

RejectedConnections::Counts RejectedConnections::counts() const {
  Counts counts;
  for (std::size_t k = 0; k < kRejectReasons; k++) counts[k] = counts_[k].load(std::memory_order_relaxed);
  return counts;
}

std::uint64_t RejectedConnections::total() const {
  const Counts all = counts();
  return std::accumulate(all.begin(), all.end(), std::uint64_t(0));
}

}  // namespace anello::trace
