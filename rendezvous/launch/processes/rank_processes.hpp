// The processes of the job's ranks, as the launcher sees them: below a keeper on this host (LocalRanks), or below
// agents on several hosts (RemoteRanks). Both report the same events. Owned by the launcher's loop.
#pragma once
#include <cstdint>
#include <functional>
#include <string>

#include "rendezvous/launch/base/poll_set.hpp"
#include "rendezvous/launch/job/job.hpp"
#include "rendezvous/launch/processes/messages.hpp"

namespace anello::launch {

// A host that could not be reached, or can no longer be reached.
struct HostLoss {
  HostRanks ranks;
  std::string why;  // a sentence that names the host; empty: the sentence of another host names this host too
};

struct RankEvents {
  std::function<void(const Report&)> reported;
  std::function<void(const world::LastWord&)> last_word;  // comes before the exit of the rank that sent it
  std::function<void(const HostLoss&)> host_lost;
  std::function<void(const HostRanks&, double cores)>
      cores_known;  // another host has reported its cores; its ranks have not started
  // No process is left, and no more reports come. The text says how the keeper ended; it is empty if the keeper ended
  // by itself.
  std::function<void(const std::string&)> ended;
};

class RankProcesses {
 public:
  virtual ~RankProcesses() = default;

  // Starts all ranks. The rendezvous listens at `port`.
  virtual void start(std::uint16_t port) = 0;
  virtual void order(const Order& order) = 0;  // if called before start(), start() starts nothing
  virtual void watch(PollSet& polls) = 0;
  virtual void tick() {}                                  // called after each wait of the event loop
  virtual bool output_may_come() const { return false; }  // true if output may still come, even after `ended`
  virtual void give_up() {}  // after this call, the destructor does not wait for processes that survive SIGKILL
};

}  // namespace anello::launch
