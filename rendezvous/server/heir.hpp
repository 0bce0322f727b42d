// The server in a process of an elastic job that may become the successor: this is its state. Used on the server's
// event loop.
#pragma once
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>

#include "rendezvous/protocol/lineage.hpp"
#include "rendezvous/protocol/look.hpp"
#include "rendezvous/server/inheritance.hpp"
#include "rendezvous/server/server.hpp"
#include "rendezvous/server/stops.hpp"
#include "ring/base/text.hpp"
#include "ring/net/handshake.hpp"

namespace anello::rendezvous {

struct Heir {
  explicit Heir(const ElasticLimits& terms, Stops::Time now) : limits(terms), stops(terms.silence / 2, now) {}

  Lineage lineage;
  ElasticLimits limits;
  std::uint32_t newest = 0;  // number of the newest world for which this process was chosen
  bool begun = false;
  bool serves = false;
  bool is_away = false;    // true if this process has gone to another successor
  std::uint64_t turn = 0;  // changes when the successor begins to wait anew
  Stops stops;

  const Peer& self() const { return lineage.newest().at(std::size_t(lineage.rank)); }
  int rank_of(const Peer& peer) const {  // in the newest world; -1: it is not in that world
    const auto at = std::ranges::find(lineage.newest(), peer);
    return at == lineage.newest().end() ? -1 : int(at - lineage.newest().begin());
  }
  // Returns the claim with which this process looks for another process. `to`: the other process's rank in the newest
  // world, or -1 if it was only in an earlier world.
  net::Claim claim(int to) const {
    return {net::Role::rendezvous, lineage.generation, lineage.rank, to, 0, 0, lineage.incarnation};
  }
  // Returns why a process with this claim does not come from this process's newest world; empty if it comes from this
  // world.
  std::string objection(const net::Claim& claim) const {
    if (claim.generation < lineage.generation)
      return text(kGoneOn, " without this process, in world ", lineage.generation);
    if (claim.generation > lineage.generation) return "this process has an older world";
    if (claim.incarnation != lineage.incarnation)
      return text("this process's world ", lineage.generation, " was begun by another server");
    if (claim.to >= 0 && claim.to != lineage.rank)
      return text("this process is rank ", lineage.rank, " of world ", lineage.generation, ", and not rank ", claim.to);
    return "";
  }
  // A process that does not listen may be computing, and may come later.
  Inheritance::Finding finding(const Peer& peer, Look::Outcome seen, Stops::Time now) {
    stops.look(now);
    if (peer.port == 0) return Inheritance::Finding::silent;
    switch (seen) {
      case Look::Outcome::answers:
        return Inheritance::Finding::present;
      case Look::Outcome::no_entry:
        return peer.address == self().address && !stops.noticed_since(lineage.since) ? Inheritance::Finding::dead
                                                                                     : Inheritance::Finding::gone;
      case Look::Outcome::rejects:
        return Inheritance::Finding::gone;
      case Look::Outcome::silent:
        break;
    }
    return Inheritance::Finding::silent;
  }
};

}  // namespace anello::rendezvous
