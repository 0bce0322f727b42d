// What a rank sends to all others before they connect, as bytes. Pure.
#pragma once
#include <string>
#include <string_view>

#include "ring/base/cores.hpp"
#include "ring/net/connections.hpp"

namespace anello::world {

struct PeerInfo {
  static constexpr std::size_t kMaxTableBytes = 48 << 10;

  net::Endpoint endpoint;
  std::string settings;  // those that must be equal on all ranks, as "VARIABLE=value" lines
  int node_rank = 0;
  Cores cores;
  std::string memory;  // ranks with the same text can share memory; empty: none
  std::string table;   // the tuning table; from rank 0 only
};

std::string encode(const PeerInfo& me);
// Throws Error{protocol}.
PeerInfo decode_peer_info(std::string_view bytes);

}  // namespace anello::world
