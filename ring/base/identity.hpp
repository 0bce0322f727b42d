// A rank's place in its world. Plain data, made by the code that found the ranks (a rendezvous, or run_world).
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace anello {

struct Identity {
  std::string job = "default";
  std::uint32_t generation = 1;  // incarnation of the world, from 1
  int rank = 0, size = 1;
  int local_rank = 0, local_size = 1;
  int node_rank = 0, node_count = 1;
  std::string host;     // name for error messages; equal on all ranks of one host
  std::string address;  // numeric ("127.0.0.1", "fe80::1%eth0"); this rank listens there, and other ranks connect to it
  std::string secret;   // empty: no authentication
  // Numeric addresses of further interfaces, where this rank listens for data. Large messages use all interfaces.
  std::vector<std::string> further_addresses;
  // Random number of the rendezvous server, which distinguishes the generations of two servers.
  std::uint64_t incarnation = 0;
};

}  // namespace anello
