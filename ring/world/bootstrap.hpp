// What a world is given: who this rank is, and a way to trade small blobs with the others. The world does not know who
// found them (a rendezvous client, or run_world in one process).
#pragma once
#include <anello/settings.hpp>
#include <anello/world.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ring/base/identity.hpp"

namespace anello {

// Entry r of the result is rank r's blob. Blocks until every rank has called it; every rank calls it equally often.
// Throws Error{rendezvous} that names who is missing.
using Exchange = std::function<std::vector<std::string>(std::string)>;

// Throws if the start has failed, as exchanging would, or fails within `patience`. A rank that waits for another one to
// connect asks it now and then: who is not there cannot be missed by those who do not know it yet.
using StartCheck = std::function<void(std::chrono::milliseconds patience)>;

class WorldMaker {
 public:
  // Opens the listener, trades endpoints and settings, connects the control plane. Blocks, start_timeout at most.
  static World make(
      const Identity& identity, const Exchange& exchange, const Settings& settings,
      const StartCheck& check = [](auto) {});

  static const Settings& settings(const World& world);
  // Where this rank listens, for other ranks and for whoever started them. 0: nowhere.
  static std::uint16_t port(const World& world);
};

}  // namespace anello
