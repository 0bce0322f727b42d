// What a world is given: who this rank is, and a way to trade small blobs with the others. The world does not know who
// found them (a rendezvous client, or run_world in one process).
#pragma once
#include <anello/settings.hpp>
#include <anello/world.hpp>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

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

// Entry r of the result is rank r's blob. Blocks until every rank has called it; every rank calls it equally often.
// Throws Error{rendezvous} that names who is missing.
using Exchange = std::function<std::vector<std::string>(std::string)>;

class WorldMaker {
 public:
  // Opens the listener, trades endpoints and settings, connects the control plane. Blocks, start_timeout at most.
  static World make(const Identity& identity, const Exchange& exchange, const Settings& settings);
};

}  // namespace anello
