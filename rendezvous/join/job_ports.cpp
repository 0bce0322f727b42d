#include "rendezvous/join/job_ports.hpp"

#include <algorithm>

#include "ring/net/addresses.hpp"

namespace anello::rendezvous {
namespace {

constexpr std::size_t kPorts = 8;

}  // namespace

// The FNV-1a hash.
std::uint64_t job_hash(std::string_view job) {
  std::uint64_t out = 14695981039346656037ULL;
  for (const char c : job) out = (out ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  return out;
}

std::vector<std::uint16_t> job_ports(std::string_view job, std::string_view range) {
  const net::PortRange ports = range.empty() ? kUsualPorts : net::parse_port_range(range);
  const std::size_t count = std::size_t(ports.last - ports.first) + 1;
  const std::uint64_t start = job_hash(job) % count, step = std::max(count / kPorts, std::size_t(1));
  std::vector<std::uint16_t> out;
  for (std::size_t i = 0; i < std::min(kPorts, count); i++)
    out.push_back(std::uint16_t(ports.first + (start + i * step) % count));
  return out;
}

}  // namespace anello::rendezvous
