// A process of an elastic job remembers its last worlds, so that the processes can go on if their server ends. Pure.
//
// The ranks of a world decide together who goes on, and more than half of them must take part. While a new world
// starts, it is not clear whether its ranks or the ranks of the last world decide, because the new world may be
// complete on only some ranks. So a process remembers both worlds, and from then on both must agree. When a rank has
// the state in the new world, all ranks of this world have made it; from then on the new world alone decides. (The
// source of this rule is the joint consensus of Raft, D. Ongaro and J. Ousterhout, 2014, section 6.)
#pragma once
#include <chrono>
#include <compare>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "rendezvous/protocol/protocol.hpp"

namespace anello::rendezvous {

// A process of a world, and where it listens for the other processes if the server ends. The Peers of two processes of
// a job always differ.
struct Peer {
  std::string address;     // numeric address
  std::uint16_t port = 0;  // 0: the process does not listen, so it cannot be the successor
  std::uint32_t pid = 0;

  auto operator<=>(const Peer&) const = default;
};
using Peers = std::vector<Peer>;  // by rank

std::string describe(const Peer& peer);  // "10.0.0.1 pid 77"

// Part of the reason with which a process rejects another process that comes from an older world.
inline constexpr std::string_view kGoneOn = "the others have gone on";

struct Lineage {
  std::uint32_t generation = 0;   // number of the newest of the worlds; 0: there is none
  std::uint64_t incarnation = 0;  // identifies the server that began this world: two servers may use one number
  int rank = -1;                  // this process's rank in that world
  // A time before this process agreed to the newest world. Until it agreed, the other processes could not begin that
  // world, and so could not have gone on without this process.
  std::chrono::steady_clock::time_point since;
  std::vector<Peers> worlds;  // the newest world in which this process has trained, and all worlds begun later

  bool exists() const { return generation > 0; }
  const Peers& newest() const { return worlds.back(); }
  // Call this before the world is made. `earlier`: the worlds of the new world's rank 0; a process that has no worlds
  // takes these. `agreed`: a time at which this process had not sent its part of the world's first exchange.
  void starts(const Assigned& place, Peers peers, std::vector<Peers> earlier,
              std::chrono::steady_clock::time_point agreed);
  void trains();  // call this when this process has the state in the newest world, before its first commit there
};

// The ranks of a new world receive this from each other.
struct Introductions {
  Peers peers;                 // by rank
  std::vector<Peers> earlier;  // the worlds of rank 0
};
// Each rank of a new world calls this. Each rank sends where it listens, and rank 0 also sends its worlds. After many
// failed starts, these worlds take several exchanges. `own_worlds`: empty, except on rank 0. `exchange`: sends a blob
// of at most kMaxBlobBytes to all ranks, and returns the blobs of all by rank. Blocks as long as `exchange` does.
// Throws the errors of `exchange`, and Error{protocol}.
Introductions introduce(const Peer& self, const std::vector<Peers>& own_worlds,
                        const std::function<std::vector<std::string>(std::string blob)>& exchange);

}  // namespace anello::rendezvous
