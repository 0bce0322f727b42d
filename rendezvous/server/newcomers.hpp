// Decides how long processes in the lobby of a running world wait for others that are on their way. So processes that
// were started together enter by one change of the world. Pure. Owned by the membership.
#pragma once
#include <chrono>
#include <optional>

#include "rendezvous/server/elastic_processes.hpp"

namespace anello::rendezvous {

class Newcomers {
 public:
  // A process waits no longer than this for others, since one of them may hang. The world trains meanwhile.
  static constexpr std::chrono::milliseconds kLimit{30000};

  // `count`: the number of processes that the launcher has started, and that are on their way to the server.
  void expect(int count) { expected_ = count; }
  bool are_expected() const { return expected_ > 0; }
  // Returns until when the processes in the lobby wait for others. Returns nothing if they do not wait: no other
  // process is on its way, or there is no room for it, or a process is to leave.
  std::optional<Time> wait_until(const ElasticProcesses& all, int max) const;

 private:
  int expected_ = 0;
};

}  // namespace anello::rendezvous
