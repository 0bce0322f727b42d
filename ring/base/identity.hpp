// Who a rank is in its world. Plain data, made by whoever found the ranks.
#pragma once
#include <cstdint>
#include <string>

namespace anello {

struct Identity {
  std::string job = "default";
  std::uint32_t generation = 1;  // one incarnation of the world; 0 is none
  int rank = 0, size = 1;
  int local_rank = 0, local_size = 1;
  int node_rank = 0, node_count = 1;
  std::string host;     // for people, and the same string on all ranks of one host
  std::string address;  // numeric; where this rank listens and what it tells the others ("127.0.0.1", "fe80::1%eth0")
  std::string secret;   // empty: no authentication
};

}  // namespace anello
