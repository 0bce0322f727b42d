// What a World owns. Members are destroyed from the last to the first: first the data path, last the event loop and its
// thread.
#pragma once
#include <anello/world.hpp>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "ring/group/group_impl.hpp"
#include "ring/net/event_loop.hpp"
#include "ring/world/bootstrap.hpp"
#include "ring/world/diagnosis.hpp"
#include "ring/world/timeline_collector.hpp"

namespace anello {

class World::Impl {
 public:
  Impl(const Identity& identity, const Exchange& exchange, const Settings& settings, const StartCheck& check);
  ~Impl();

  void abort(std::string_view reason);
  std::uint16_t port() const;
  void finish();
  const Identity& identity() const { return identity_; }
  const Facts& facts() const { return facts_; }
  const Settings& settings() const { return settings_; }
  const std::string& host(int rank) const;
  const std::shared_ptr<Group::Impl>& all_ranks() const { return all_ranks_; }
  Diagnosis& diagnosis() { return diagnosis_; }
  TimelineCollector& tracing() { return timeline_collector_; }

 private:
  void start(const Exchange& exchange, const Settings& settings, const StartCheck& check);
  void report_failed_start(const std::exception& why);
  void join(const Exchange& exchange, const Settings& settings);
  std::shared_ptr<Group::Impl> make_group(std::vector<int> members);
  std::shared_ptr<Group::Impl> make_group(std::uint64_t group, std::string name, std::vector<int> members);
  std::shared_ptr<Group::Impl> make_pair(std::uint64_t within, int from, int to);
  std::uint64_t identify(const std::vector<int>& members);
  void leave();
  void save_timeline();

  Identity identity_;
  Settings settings_;
  Diagnosis diagnosis_{identity_, settings_};
  TimelineCollector timeline_collector_;
  Facts facts_;                          // equal on all ranks
  Table table_;                          // equal on all ranks
  std::vector<std::string> hosts_;       // by rank
  std::vector<int> nodes_;               // by rank
  std::vector<std::string> memories_;    // by rank: ranks with the same text can share memory
  bool shares_cores_ = false;            // this host has more ranks than cores for them
  std::optional<EventLoop> event_loop_;  // not in a world of one that serves nothing, like the next three
  Diagnosis::Services services_;
  std::optional<PeerConnections> peer_connections_;
  std::optional<ControlPlane> control_;
  std::optional<LinkRouter> link_router_;

  std::mutex mutex_;                                // guards what follows
  std::map<std::vector<int>, std::uint64_t> made_;  // how many groups of these members were made
  std::vector<std::weak_ptr<Group::Impl>> groups_;
  std::shared_ptr<Group::Impl> all_ranks_;
  bool left_ = false;
};

}  // namespace anello
