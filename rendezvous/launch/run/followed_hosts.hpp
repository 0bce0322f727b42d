// The hosts of an elastic job, while they may change: a script lists them again and again, or they are in a file that
// the user asks to read again. A new host gets places and an agent. The processes of a host that is missing leave at a
// commit, and then its agent ends. A host that was lost, or could not be used, rests before the script's list brings it
// back. Owned by the launcher's loop.
#pragma once
#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "rendezvous/launch/agents/remote_ranks.hpp"
#include "rendezvous/launch/base/poll_set.hpp"
#include "rendezvous/launch/processes/elastic_supervisor.hpp"
#include "rendezvous/launch/run/host_discovery.hpp"

namespace anello::launch {

class FollowedHosts {
 public:
  // The parts of the job that a change of its hosts concerns. They must live longer than this object.
  struct Parts {
    Job& job;  // its layout grows
    ElasticSupervisor& supervisor;
    RemoteRanks& ranks;
    std::function<std::vector<RankEnds>(const HostRanks&)> make_ends;  // makes the pipes of a new host's processes
    std::function<void(const std::string&)> print;
  };
  FollowedHosts(Parts parts, const Inherited& inherited);

  void watch(PollSet& polls);
  void tick();  // call after each wait of the event loop
  void lost(const HostRanks& host);
  void read_again();  // reads the host file, which the job must have
  // Returns the hosts, with their slots, that are listed and were not lost.
  Hosts remaining() const;

 private:
  struct Rest {
    Clock::time_point until{};
    int failures = 0;
  };
  void follow(const Hosts& listed);
  void add(const Host& host, Clock::time_point now);
  void let_rest(const std::string& host);
  bool is_used(const std::string& host) const;
  void release_empty_hosts();

  Parts parts_;
  std::optional<HostDiscovery> discovery_;  // nothing: the hosts are in a file
  std::string failure_;                     // the newest failure of the discovery that was printed
  // Numbers of hosts in the layout. left_: hosts that are no longer listed, or were lost. to_release_: hosts whose
  // agents are still to be ended.
  std::set<std::size_t> left_, to_release_;
  std::map<std::string, Rest> rests_;
};

}  // namespace anello::launch
