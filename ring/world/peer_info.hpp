// What a rank tells the others of itself before they are connected, as bytes. Pure.
#pragma once
#include <string>
#include <string_view>

#include "ring/base/cores.hpp"
#include "ring/net/connections.hpp"

namespace anello {

struct PeerInfo {
  static constexpr std::size_t kMaxTableBytes = 48 << 10;

  Endpoint endpoint;
  std::string settings;  // "VARIABLE=value" lines of those that must be equal on all ranks
  int node_rank = 0;
  Cores cores;
  std::string memory;  // whom it can share memory with: those that say the same; empty: nobody
  std::string table;   // of algorithms; of rank 0 only
};

std::string encode(const PeerInfo& me);
// Throws Error{protocol}.
PeerInfo decode_peer_info(std::string_view bytes);

}  // namespace anello
