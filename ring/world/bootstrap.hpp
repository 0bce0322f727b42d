// Makes a world from this rank's identity and a function that exchanges small blobs with the other ranks. The world
// does not depend on how that function works (a rendezvous client, or run_world in one process).
#pragma once
#include <anello/settings.hpp>
#include <anello/world.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "ring/algorithms/selection.hpp"
#include "ring/base/identity.hpp"

namespace anello::world {

// Sends this rank's blob and returns the blobs of all ranks: entry r is rank r's. Blocks until every rank has called.
// Every rank must make the same number of calls. Throws Error{rendezvous} that names the missing ranks.
using Exchange = std::function<std::vector<std::string>(std::string)>;

// Throws the errors of Exchange if the start has failed, or fails within `limit`. A rank that waits for another rank to
// connect calls this again and again, because it cannot detect the silence of a rank that never connected.
using StartCheck = std::function<void(std::chrono::milliseconds limit)>;

class WorldMaker {
 public:
  // Opens the listener, exchanges endpoints and settings, and connects the control plane. Blocks for at most
  // start_timeout.
  static World make(
      const Identity& identity, const Exchange& exchange, const Settings& settings,
      const StartCheck& check = [](auto) {});

  // For a process that is about to end. Aborts each of its worlds. Blocks until the reason has been sent, for at most
  // the silence limit (10 s if there is no such limit). After that, blocks for each world for at most 500 ms until the
  // other ranks have received the reason. The worlds cannot be used afterwards.
  static void abort_all(std::string_view reason);

  // For a process that ends in good order. Sends a goodbye to the other ranks of its worlds. Blocks as ~World() does.
  // The worlds cannot be used afterwards.
  static void say_goodbye_to_all();

  // Leaves the world like the destructor of World. Calls on the world and its groups then throw
  // Error{invalid_argument}.
  static void leave(World& world);

  // Returns true if the world has failed on this rank. Does not wait.
  static bool has_failed(const World& world);

  static const Settings& settings(const World& world);
  // The facts that the ranks exchanged at the start. Valid as long as the world exists.
  struct Layout {
    const algorithms::Facts& facts;
    const algorithms::Table& table;
    // By rank. Ranks with equal texts can share memory; a rank with an empty text shares with no rank.
    const std::vector<std::string>& memories;
    const std::vector<int>& nodes;  // by rank; the number of its host
  };
  static Layout layout(const World& world);
  // Returns the port on which this rank listens for other ranks and for the launcher. 0: it does not listen.
  static std::uint16_t port(const World& world);
  static const std::string& address(const World& world);  // numeric; the other ranks connect to this address
};

}  // namespace anello::world
