// Processes of a host, for tests of who may go on without the server.
#pragma once
#include <cstdint>
#include <vector>

#include "rendezvous/protocol/lineage.hpp"

namespace anello::rendezvous {

// The port of each process equals its number.
inline Peers peers(const std::vector<std::uint32_t>& pids) {
  Peers out;
  for (const std::uint32_t pid : pids) out.push_back({"10.0.0.1", std::uint16_t(pid), pid});
  return out;
}

}  // namespace anello::rendezvous
