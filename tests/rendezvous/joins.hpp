// Makes Join messages for tests that use no sockets.
#pragma once
#include "rendezvous/protocol/protocol.hpp"

namespace anello::rendezvous {

inline Join on(std::string host, int rank = -1, int size = -1, int local_rank = -1) {
  static std::uint32_t pid = 1000;
  Join join;
  join.machine = host + "'s kernel";
  join.address = "10.0.0." + std::to_string(int(host[0]));
  join.host = std::move(host);
  join.pid = pid++;
  join.rank = rank;
  join.size = size;
  join.local_rank = local_rank;
  return join;
}

}  // namespace anello::rendezvous
