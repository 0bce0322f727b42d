// The parts of a process in an elastic job: worlds, one after the other, and the state that goes from each to the next.
#pragma once
#include <anello/elastic.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/client/standing_connection.hpp"
#include "rendezvous/elastic/succession.hpp"
#include "ring/base/mutex.hpp"
#include "ring/base/process_mark.hpp"
#include "ring/elastic/decision.hpp"

namespace anello::elastic {

// Returns false for errors that are a mistake of the program, because the program would repeat the mistake in the next
// world.
bool another_can_follow(ErrorCode code);
// Unless a call is right in this phase, throws Error{invalid_argument} with the remedy.
void check_phase(const char* call, bool is_right, const char* remedy);

class Job::Impl {
 public:
  Impl(State& state, Options options, const Settings& settings);

  bool enter();
  World& world();
  const Change& change() const { return change_; }
  void synchronize();
  void begin_synchronization(std::string_view manifest);
  void deliver(std::span<const Tensor> tensors);
  void end_synchronization(const std::vector<EntryHash>& entries, std::uint64_t bytes);
  void begin_commit();
  bool end_commit();
  void commit(const std::function<void()>& update);
  void compare(const std::vector<EntryHash>& entries);
  bool change_is_planned() const {
    const MutexLock lock(replacement_);
    return connection_->change_is_planned();
  }
  bool survives(const Error& error) const;
  void finish();
  bool in_child() const { return process_.in_child(); }

 private:
  std::optional<rendezvous::Assigned> enter_next();
  void replace_connection(std::unique_ptr<rendezvous::StandingConnection> next);
  void end_part();
  bool start();
  bool may_start_again(const Error& error);
  void make_world();
  [[noreturn]] void give_up(const std::string& reason);
  void count_worlds(const rendezvous::Assigned& place);
  void leave_world();
  template <class Part>
  void together(Part part);
  void note(const std::vector<int>& sources, const std::vector<int>& receivers, std::uint64_t revision);
  void begin_training();
  void report() const;
  void warn_of_operations();

  // The progress of the newest world.
  enum class Phase {
    starting,    // the world is being made
    exchanging,  // the ranks exchange the state of the program
    training,    // all ranks have the state
    ended,       // the world has ended as planned, after a commit
    left,        // this process has left the world, or there is no world yet
    over         // this process has left the job
  };

  ProcessMark process_;
  const Settings settings_;
  State& state_;
  const Options options_;
  Succession succession_;
  mutable Mutex replacement_;  // guards replacing the connection, which another thread may use to ask for a change
  std::unique_ptr<rendezvous::StandingConnection> connection_;  // destroyed before the succession, which may serve it
  std::optional<rendezvous::LeaveNotice> notice_;               // exists until the training has ended
  std::optional<World> world_;
  Phase phase_ = Phase::left;
  Decision decision_;          // which ranks send the state; valid in the phase `exchanging`
  std::vector<Group> groups_;  // the groups that send the state; used in the phase `exchanging`
  Change change_;
  bool begun_ = false;     // true if a world of this job has begun to train before
  int failed_starts_ = 0;  // worlds in a row that could not start because of errors between ranks
  int idle_worlds_ = 0;    // worlds in a row without a commit and without a change of processes
  std::uint64_t last_revision_ = 0;
  std::optional<std::uint64_t> operations_before_;  // a commit that is checked began after this many operations
  bool was_in_a_world_ = false;
  std::chrono::steady_clock::time_point paused_since_ = std::chrono::steady_clock::now();
};

}  // namespace anello::elastic
