// An elastic job in virtual time: the real membership, the real decision about the state and the real gate at commits,
// with processes, worlds and a network that are models. Events (kill, stop, continue, add, cut) come from a seed. While
// the job runs, all rules that must always hold are checked. violation() is empty if none was broken.
//
// A world has a barrier at each step, and at each part of its start. A barrier is passed when all ranks have come. Each
// rank finds out at a different time that a barrier is passed, or that the world has failed because a process has
// ended. So ranks differ in the steps that they have finished, like real ranks. A state is a number that depends on all
// commits before.
//
// Processes of host a and of host b alternate. While the network is cut, each process reaches only processes of its own
// side.
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "rendezvous/client/commit_gate.hpp"
#include "rendezvous/protocol/lineage.hpp"
#include "rendezvous/server/membership.hpp"
#include "ring/elastic/decision.hpp"

namespace anello::rendezvous {

class ElasticSimulation {
 public:
  struct Options {
    std::uint64_t seed = 1;
    int first = 3, min = 1, max = 8;
    std::uint64_t steps = 20;
    int events = 6;            // kills, stops and so on
    int batches = 0;           // how often a launcher starts several processes together; some of them never join
    int sabotage = 0;          // percentage of barriers at which a rank is killed
    bool one_host = false;     // all processes are on one host
    bool is_slow = false;      // a process needs most of a second to reach another's server
    bool server_dies = false;  // the server ends, and a process succeeds it; the network is cut and heals
    // Newcomers join, as many as there are processes. The server ends while it starts their world, before it has sent
    // this to all ranks. Some processes may then be cut off from the others.
    bool server_dies_at_start = false;
    bool notices = false;     // some events ask a process to leave
    bool long_stops = false;  // all events stop a process, most of them for longer than the limit of silence
  };

  explicit ElasticSimulation(const Options& options);
  ~ElasticSimulation();
  void run();  // runs to the end of the job

  // The first violation, with the seed; empty if there was none.
  const std::string& violation() const { return violation_; }
  const std::string& script() const { return script_; }  // what happened, a line each
  bool finished() const { return finished_; }            // all steps were committed
  bool lost() const { return lost_; }                    // all processes that had the state ended
  std::uint32_t generations() const { return worlds_.empty() ? 0 : worlds_.rbegin()->first.first; }
  int successions() const { return successions_; }  // worlds of successors that went on
  std::size_t events_done() const { return events_done_; }
  std::size_t batches_joined() const { return batches_joined_.size(); }  // in which a process has joined

 private:
  using Clock = std::chrono::steady_clock;
  using Duration = Clock::duration;
  enum class Stage { entering, making, reporting, receiving, computing, holding, finished, ended };
  struct Model;  // of a process
  struct World;
  struct Server;
  struct Link;

  // Time.
  void at(Time when, std::function<void()> what);
  void after(Duration delay, std::function<void()> what) { at(now_ + delay, std::move(what)); }
  Duration draw(int min_us, int max_us);
  bool chance(int percent) { return int(random_() % 100) < percent; }

  // The servers and the network.
  void deliver(Server& server, Sends sends);
  void end_while_it_sends(Server& server, Sends& sends);
  void set_alarm(Server& server);
  void tell_server(Model& model, Request request);
  void check_leavers(const Link& link, const Sends& sends, bool may_get_state);
  void transmit(const std::shared_ptr<Link>& link, bool to_server, std::function<void()> what);
  void arrive(Model& model, const Reply& reply);
  void connect(Model& model, Server& server, const Join& join);
  void cut(const std::shared_ptr<Link>& link);
  void close(const std::shared_ptr<Link>& link);
  void lost_server(Model& model, bool closed);
  bool reaches(const Model* one, const Model* other) const;
  void cut_network();
  void kill_server(Server& server);

  // The succession.
  void look_for_successor(Model& model);
  void try_successor(Model& model, int rank);
  void succeed(Model& model);
  void watch(Model& successor, const Peer& peer, std::uint64_t turn);
  void send_away(Server& server, const Reply& last_word);
  void listen(Model& model);
  void inherit(Model& model);
  void leave_server(Model& model);
  void watch_link(const std::shared_ptr<Link>& link);
  void look_for_stops(Model& model);

  // Processes.
  void add_process();
  void launch(int batch, int count);
  void report_newcomers(int more);
  void unstop(Model& model);
  void enter(Model& model);
  void make(Model& model, const Assigned& assigned);
  void pass(Model& model, Stage from, const std::function<void()>& what);
  void come_to_barrier(Model& model, std::function<void()> passed);
  void report(Model& model);
  void receive(Model& model, const elastic::Decision& decision);
  std::uint64_t received(const World& world, int rank, const elastic::Decision& decision);
  void compute(Model& model);
  void commit(Model& model);
  void go_through_gate(Model& model);
  void leave_as_planned(Model& model);
  void world_fails(const std::shared_ptr<World>& world);
  void notice_failure(Model& model);
  void kill_soon(Model& model);
  void end(Model& model, const std::string& why);
  void end_heir(Model& model, std::optional<Time> limit);
  void ask_to_leave(Model& model);
  void stop(Model& model);
  void kill(Model& model);

  void random_event();
  void check_start(const std::shared_ptr<World>& world, const elastic::Decision& decision);
  void check_commit(const Model& model);
  void check_loss(const Server& server, const Reply& reply);
  void check_end();
  void violated(const std::string& what);
  void note(const std::string& line);
  std::vector<Model*> living();

  const Options options_;
  std::mt19937_64 random_;
  Time now_{};
  std::multimap<Time, std::function<void()>> queue_;
  std::vector<std::unique_ptr<Server>> servers_;
  std::map<MemberId, std::unique_ptr<Model>> processes_;
  std::map<std::pair<std::uint32_t, std::uint64_t>, std::shared_ptr<World>> worlds_;  // by generation and incarnation
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::uint64_t>
      complete_;                                    // by job and revision: the state that all ranks had
  std::map<std::uint64_t, std::uint64_t> parents_;  // by state: the state before its last commit
  std::uint64_t next_garbage_ = 1ull << 63;
  std::string violation_, script_;
  std::size_t events_done_ = 0, killed_ = 0, released_ = 0;
  int newcomers_ = 0;  // started by the launcher; these processes may still join
  std::set<int> batches_joined_;
  bool finished_ = false, lost_ = false;
  bool is_cut_ = false;
  std::uint64_t jobs_ = 0;  // after the loss of the state another job begins
  std::uint64_t cuts_ = 0, next_incarnation_ = 1;
  MemberId next_member_ = 1;
  int successions_ = 0;
  bool calm_ = false;  // nothing happens any more
};

}  // namespace anello::rendezvous
