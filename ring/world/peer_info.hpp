// The facts that a rank sends to all others before they connect, as bytes. Pure.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "ring/base/cores.hpp"
#include "ring/net/connections.hpp"

namespace anello::world {

struct PeerInfo {
  static constexpr std::size_t kMaxTableBytes = 48 << 10;

  std::string version;      // version of the library
  std::uint64_t plans = 0;  // result of algorithms::build_fingerprint()
  net::Endpoint endpoint;
  std::string settings;  // the settings that must be equal on all ranks, as "VARIABLE=value" lines
  int node_rank = 0;
  Cores cores;
  std::string kernel;  // equal for hosts (such as containers) on one machine; empty: could not be found out
  std::string memory;  // ranks with equal texts can share memory; empty: this rank shares with no rank
  std::string table;   // the tuning table; from rank 0 only
};

// The members that every version of the library can decode from a message of any other version. They come first in the
// message.
struct Build {
  std::string version;
  std::uint64_t plans = 0;
  std::string host;
};

std::string encode(const PeerInfo& me);
// decode_build() and decode_peer_info() throw Error{protocol}.
Build decode_build(std::string_view bytes);
PeerInfo decode_peer_info(std::string_view bytes);

// Throws Error{mismatch} that names both ranks, hosts and builds if a rank's library differs from rank 0's library.
// `blobs`: by rank.
void compare_builds(const std::vector<std::string>& blobs);

}  // namespace anello::world
