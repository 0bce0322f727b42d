// A process of an elastic job as its membership sees it, and the places of processes in their next world. Pure.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/protocol/protocol.hpp"
#include "rendezvous/server/sends.hpp"

namespace anello::rendezvous {

struct ElasticProcess {
  enum class State {
    arrived,   // it has joined, and has not entered yet
    waiting,   // it has entered, and waits for the next world
    starting,  // it has a rank in the newest world, which is not complete
    member     // its part of the newest world is complete
  };

  Join join;               // the process's Join, with the rank of the newest world
  std::uint64_t seat = 0;  // ascending in the order of joining
  State state = State::arrived;
  std::uint32_t since = 0;    // generation of its first world; 0: it was in no world
  std::uint32_t trained = 0;  // generation of the newest world in which it has trained
  int local_rank = -1;        // kept from world to world
  Time entered{};             // when it entered the lobby
  bool asked = false;         // true if the last inquiry has asked it whether it is present
  Time answered{};            // when its last message came, or when it was asked if no message has come since
  bool missed = false;        // true if it has not answered the last two inquiries
  bool retires = false;       // true if it was asked to leave at the next commit
  std::optional<std::uint64_t> commits;

  bool was_in_a_world() const { return since > 0; }
  // True if the process comes from the last world of this server's predecessor, and is about to enter.
  bool returns() const { return state == State::arrived && join.rank >= 0; }
};

// Gives ranks to these processes, and local ranks to those that have none. Ranks follow seniority: hosts are ordered by
// their oldest process, and the processes of a host by their age. So the survivors of a world keep their order in the
// next one, and the ranks of a host are contiguous. A process keeps its local rank, which decides which GPU it uses.
// `others`: processes of the same hosts.
void give_ranks(const std::vector<ElasticProcess*>& chosen, const std::vector<const ElasticProcess*>& others);

// Returns the places of processes that have ranks. The local size of a host is one more than its highest local rank.
std::vector<Assigned> places_of(const std::vector<ElasticProcess*>& chosen, std::uint32_t generation);

}  // namespace anello::rendezvous
