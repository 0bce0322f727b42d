// Decides whether the processes that have come to the successor of a server may go on as the next world. Pure.
//
// The successor waits for each process of the last world that has not come but still answers, because such a process
// may be computing. Then the successor needs more than half of the processes of that world
// (rendezvous/protocol/lineage.hpp), so that no others can have gone on too. If it has fewer, all missing processes
// must certainly be dead. This is certain only for processes at the successor's own address, if its kernel refuses
// connections to them.
#pragma once
#include <chrono>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "rendezvous/protocol/lineage.hpp"
#include "rendezvous/server/sends.hpp"

namespace anello::rendezvous {

class Inheritance {
 public:
  // The result of a look at the address where a process should listen.
  enum class Finding {
    present,  // the process answers
    dead,     // the kernel of this host refuses connections: its process has ended
    gone,     // the kernel of another host, or of a host that has taken its place, refuses connections
    silent    // nothing answers: it is stopped, or its host is lost or cut off
  };

  // A process that is silent for `patience` is not awaited any longer.
  Inheritance(Lineage lineage, std::chrono::milliseconds patience)
      : lineage_(std::move(lineage)), patience_(patience) {}

  const Lineage& lineage() const { return lineage_; }
  void found(const Peer& peer, Finding what, Time now);

  // `come`: ranks of the last world that have come.
  bool awaits_nobody(const std::set<int>& come) const;
  bool allows(const std::set<int>& come) const;
  std::string missing(const std::set<int>& come) const;  // "rank 1 (10.0.0.1 pid 77, which has ended), rank 2 (...)"

 private:
  const Lineage lineage_;
  const std::chrono::milliseconds patience_;
  std::map<Peer, Time> silent_since_;
  std::set<Peer> dead_, lost_;  // lost: not awaited, but perhaps alive
};

}  // namespace anello::rendezvous
