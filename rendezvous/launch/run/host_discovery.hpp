// Runs the user's script again and again. The script lists the hosts of an elastic job, a host a line, as in a host
// file. If a run fails or lists no host, the hosts of the last good run count. Owned by the launcher's loop.
#pragma once
#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>

#include "rendezvous/launch/base/descriptor.hpp"
#include "rendezvous/launch/base/poll_set.hpp"
#include "rendezvous/launch/job/hosts.hpp"
#include "rendezvous/launch/processes/local_ranks.hpp"

namespace anello::launch {

class HostDiscovery {
 public:
  // `command`: words as in a shell.
  HostDiscovery(const std::string& command, const Inherited& inherited);
  ~HostDiscovery();  // kills a run in progress
  HostDiscovery(const HostDiscovery&) = delete;
  HostDiscovery& operator=(const HostDiscovery&) = delete;

  void watch(PollSet& polls);
  // Begins and ends runs. Call it after each wait of the event loop. Returns the hosts, at least one, if a run has
  // ended well since the last call.
  std::optional<Hosts> tick();
  // Returns why the newest run has failed; empty if it has not failed.
  const std::string& failure() const { return failure_; }

 private:
  using Clock = std::chrono::steady_clock;
  void begin();
  void read_some();
  std::optional<Hosts> result(int status);

  const std::vector<std::string> command_;
  const Inherited inherited_;
  pid_t pid_ = -1;    // process of the run in progress; -1: no run is in progress
  Descriptor from_;   // pipe for the run's output; closed once the output has ended
  std::string said_;  // the output of the run so far
  std::string failure_;
  Clock::time_point next_{}, limit_{};
};

// Waits until the script lists hosts with at least `slots` slots, for at most `limit`. `per_host`: how many slots each
// host has; 0: the script gives it. Throws Error{configuration} that says what the script lists or why it fails.
Hosts discover_hosts(const std::string& command, int slots, int per_host, std::chrono::milliseconds limit);

}  // namespace anello::launch
