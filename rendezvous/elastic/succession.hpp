// A process's part in the succession of the rendezvous server of its elastic job. The process listens from the job's
// beginning, at an address that all ranks of its world have. If the server has ended when the next world is due, the
// process with the lowest rank that can be reached is the successor (rendezvous/server/inheritance.hpp decides whether
// it may go on). One thread.
#pragma once
#include <anello/settings.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "rendezvous/client/standing_connection.hpp"
#include "rendezvous/elastic/search_time.hpp"
#include "rendezvous/protocol/lineage.hpp"
#include "rendezvous/server/server.hpp"

namespace anello::elastic {

class Succession {
 public:
  explicit Succession(const Settings& settings);

  // Call both functions in each world: assigned() when the server has given a place, before the world is made; the
  // second function when this process has the state, before its first commit. The second function is an exchange
  // between all ranks, and blocks like an exchange.
  void assigned(const rendezvous::Assigned& place) { place_ = place; }
  void starts(rendezvous::StandingConnection& server);
  void trains();

  // True if one of the processes may go on as the server.
  bool is_possible() const { return lineage_.exists(); }
  // Returns the connection with the successor of a server that has ended, at which enter() may follow. Tries each
  // address for half a second, and longer in each further search. Throws Error{rendezvous} if the others have gone on
  // without this process, or if all searches since this process last trained have together taken start_timeout.
  std::unique_ptr<rendezvous::StandingConnection> successor(const Identity& identity);
  // Ends this process's part in the job: it listens no more. If it is the successor, blocks until no other process
  // needs it: until another process has taken over, or until all others have finished too. Blocks for start_timeout at
  // most.
  void finish();
  void stop();  // does the same as finish(), but does not wait: the others lose their server

 private:
  void listen(const Identity& identity);
  void listen_no_more(const std::string& why);
  std::unique_ptr<rendezvous::StandingConnection> join(int rank, const Identity& identity,
                                                       std::chrono::milliseconds limit) const;
  std::unique_ptr<rendezvous::StandingConnection> search(const Identity& identity);
  void serve();
  bool can_be_succeeded() const;
  void serve_on();

  const Settings settings_;
  rendezvous::Assigned place_;
  rendezvous::Lineage lineage_;
  std::unique_ptr<RendezvousServer> server_;
  bool serves_ = false;     // true if this process's own server is the successor
  bool announces_ = false;  // true until the first world of this successor starts
  bool has_warned_ = false;
  bool searches_ = false;  // true if this process has searched for a successor since it last trained
  SearchTime search_time_;
};

}  // namespace anello::elastic
