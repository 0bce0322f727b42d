// The server of a process that may become the successor remembers this. On the server's event loop.
#pragma once
#include <chrono>
#include <cstdint>

#include "rendezvous/protocol/lineage.hpp"
#include "rendezvous/protocol/look.hpp"
#include "rendezvous/server/inheritance.hpp"
#include "rendezvous/server/server.hpp"
#include "rendezvous/server/stops.hpp"

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
  // True if that process is the successor rather than this one.
  bool goes_before(const Peer& other) const {
    for (int rank = 0; rank < lineage.rank; rank++)
      if (lineage.newest().at(std::size_t(rank)) == other) return true;
    return false;
  }
  // A process that does not listen may compute, and come later.
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
