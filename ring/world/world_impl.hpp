// The state of a World. Members are destroyed from the last to the first, so the data path is destroyed first, and the
// event loop with its thread last.
#pragma once
#include <anello/world.hpp>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ring/base/mutex.hpp"
#include "ring/base/process_mark.hpp"
#include "ring/group/group_impl.hpp"
#include "ring/net/event_loop.hpp"
#include "ring/world/bootstrap.hpp"
#include "ring/world/diagnosis.hpp"
#include "ring/world/places.hpp"
#include "ring/world/timeline_collector.hpp"

namespace anello {

class World::Impl {
 public:
  class Alive;  // alive_worlds_impl.hpp

  Impl(const Identity& identity, const world::Exchange& exchange, const Settings& settings,
       const world::StartCheck& check);
  ~Impl();

  void abort(std::string_view reason, ErrorCode code = ErrorCode::aborted);
  void note_exception();  // call when the World is destroyed; checks whether an exception is the reason
  static bool aborted_by_exit();
  std::uint16_t port() const;
  void finish();
  const Identity& identity() const { return identity_; }
  const algorithms::Facts& facts() const { return facts_; }
  const algorithms::Table& table() const { return table_; }
  const world::Places& places() const { return places_; }
  const Settings& settings() const { return settings_; }
  const std::string& host(int rank) const;
  const std::shared_ptr<Group::Impl>& all_ranks() const { return all_ranks_; }
  world::Diagnosis& diagnosis() { return diagnosis_; }
  world::TimelineCollector& tracing() { return timeline_collector_; }
  bool in_child() const { return process_.in_child(); }
  void check_process() const;  // throws Error{invalid_argument} in a child that fork() made

 private:
  void start(const world::Exchange& exchange, const Settings& settings, const world::StartCheck& check);
  void report_failed_start(const std::exception& why);
  void join(const world::Exchange& exchange, const Settings& settings);
  std::vector<net::Endpoint> exchange_peer_info(const world::Exchange& exchange, const Settings& settings);
  void open_connections(std::vector<net::Endpoint> peers, const Settings& settings);
  void data_link_failed(std::uint64_t group, const Error& why);
  std::shared_ptr<Group::Impl> make_group_within(std::uint64_t within, std::vector<int> members);
  std::shared_ptr<Group::Impl> make_group(std::uint64_t group, std::string name, std::vector<int> members);
  std::shared_ptr<Group::Impl> make_pair(std::uint64_t within, int from, int to);
  std::vector<std::shared_ptr<Group::Impl>> groups_that_are_over();
  void forget(const Group::Impl& group);
  std::shared_ptr<Group::Impl> group_at(std::size_t place);
  // The group that makes a group, and the members of the new group.
  using Parentage = std::pair<std::uint64_t, std::vector<int>>;
  std::uint64_t next_number(const Parentage& parentage);
  friend class world::WorldMaker;
  // Call when the process ends; the world cannot be used afterwards. Allocates no memory.
  void say_goodbye() noexcept;
  void leave();
  void save_records() noexcept;
  void save_timeline();

  const int exceptions_ = std::uncaught_exceptions();
  ProcessMark process_;
  Identity identity_;
  Settings settings_;
  world::Diagnosis diagnosis_{identity_, settings_};
  world::TimelineCollector timeline_collector_;
  algorithms::Facts facts_;  // equal on all ranks
  algorithms::Table table_;  // equal on all ranks
  world::Places places_;
  link::WaitPolicy wait_policy_;
  // In a world of one rank that serves nothing, `event_loop_` and the next three optional members are empty.
  std::optional<net::EventLoop> event_loop_;
  world::Diagnosis::Services services_;
  std::optional<net::PeerConnections> peer_connections_;
  std::optional<control::ControlPlane> control_;
  std::optional<net::LinkRouter> link_router_;

  std::shared_ptr<group::ProgressThread> progress_thread_;

  Mutex mutex_;
  std::map<Parentage, std::uint64_t> made_ ANELLO_GUARDED_BY(mutex_);  // number of groups made with this parentage
  // Includes groups without handles until their operations are done.
  std::vector<std::shared_ptr<Group::Impl>> groups_ ANELLO_GUARDED_BY(mutex_);
  std::shared_ptr<Group::Impl> all_ranks_;  // used without the lock: exists from the start
  bool left_ ANELLO_GUARDED_BY(mutex_) = false;
};

}  // namespace anello
