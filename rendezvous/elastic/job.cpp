#include <anello/elastic.hpp>
#include <optional>
#include <utility>

#include "rendezvous/check_settings.hpp"
#include "rendezvous/client/standing_connection.hpp"
#include "rendezvous/elastic/succession.hpp"
#include "rendezvous/join/home_secret.hpp"
#include "rendezvous/protocol/describe.hpp"
#include "rendezvous/protocol/interruption.hpp"
#include "rendezvous/start_log.hpp"
#include "rendezvous/uncaught.hpp"
#include "ring/base/config.hpp"
#include "ring/base/log.hpp"
#include "ring/base/process_mark.hpp"
#include "ring/base/rank_list.hpp"
#include "ring/base/standard_descriptors.hpp"
#include "ring/base/text.hpp"
#include "ring/elastic/contents.hpp"
#include "ring/elastic/synchronize.hpp"
#include "ring/elastic/transfer.hpp"
#include "ring/world/bootstrap.hpp"

namespace anello::elastic {
namespace {

using std::chrono::steady_clock;
constexpr std::chrono::milliseconds kMoment{2000};
constexpr const char* kBeginFirst = "call begin_synchronization() in this world first";

Settings checked(const Settings& settings) {
  open_missing_standard_descriptors();
  rendezvous::handle_uncaught_exceptions();
  set_log(rendezvous::log_severity(settings), "");
  rendezvous::check_settings(settings, [](const Error& error) { throw error; });
  if (settings.rendezvous.empty())
    throw Error(ErrorCode::configuration,
                "an elastic job needs a rendezvous server: start `anello rendezvous --min-np N`, and set "
                "ANELLO_RENDEZVOUS to the address that it prints");
  return settings;
}

// Returns false for errors that are a mistake of the program, because the program would repeat it in the next world.
bool another_can_follow(ErrorCode code) {
  switch (code) {
    case ErrorCode::rank_dead:
    case ErrorCode::rank_left:
    case ErrorCode::rank_silent:
    case ErrorCode::aborted:
    case ErrorCode::network:
      return true;
    default:
      return false;
  }
}

void check_phase(const char* call, bool is_right, const char* remedy) {
  if (!is_right) throw Error(ErrorCode::invalid_argument, text(call, ": ", remedy));
}

}  // namespace

class Job::Impl {
 public:
  Impl(State& state, Options options, const Settings& settings)
      : settings_(checked(settings)),
        state_(state),
        options_(std::move(options)),
        succession_(settings_),
        connection_(
            std::make_unique<rendezvous::StandingConnection>(settings_, rendezvous::read_job_secret(settings_))) {}

  bool enter();
  World& world();
  const Change& change() const { return change_; }
  void synchronize();
  void begin_synchronization(std::string_view manifest);
  void deliver(std::span<const Tensor> tensors);
  void end_synchronization(const std::vector<EntryHash>& entries, std::uint64_t bytes);
  void begin_commit();
  bool end_commit();
  bool change_is_planned() const { return connection_->change_is_planned(); }
  bool survives(const Error& error) const;
  void finish();
  bool in_child() const { return process_.in_child(); }

 private:
  std::optional<rendezvous::Assigned> enter_next();
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
  std::unique_ptr<rendezvous::StandingConnection> connection_;  // destroyed before the succession, which may serve it
  std::optional<World> world_;
  Phase phase_ = Phase::left;
  Decision decision_;          // which ranks send the state; valid in the phase `exchanging`
  std::vector<Group> groups_;  // in which the state is sent; in the phase `exchanging`
  Change change_;
  bool begun_ = false;     // true if a world of this job has begun to train before
  int failed_starts_ = 0;  // worlds in a row that could not start because of errors between ranks
  int idle_worlds_ = 0;    // worlds in a row without a commit and without a change of processes
  std::uint64_t last_revision_ = 0;
  bool was_in_a_world_ = false;
  steady_clock::time_point paused_since_ = steady_clock::now();
};

World& Job::Impl::world() {
  if (!world_) throw Error(ErrorCode::invalid_argument, "there is no world yet: call next() or enter() first");
  return *world_;
}

bool Job::Impl::enter() {
  check_phase("enter", phase_ != Phase::over, "this process's part in the job has ended");
  leave_world();
  for (;;) {
    const std::optional<rendezvous::Assigned> place = enter_next();
    if (!place) {
      phase_ = Phase::over;
      return false;
    }
    count_worlds(*place);
    begun_ = place->begun;
    change_ = {.generation = place->generation, .rank = place->rank, .size = place->size, .reason = place->change};
    if (start()) return true;
  }
}

// Enters the next world, and if the server has ended, at its successor.
std::optional<rendezvous::Assigned> Job::Impl::enter_next() {
  for (;;) {
    try {
      std::optional<rendezvous::Assigned> place = connection_->enter(change_.generation);
      if (place) succession_.assigned(*place);
      return place;
    } catch (const rendezvous::ServerGone& gone) {
      if (!succession_.is_possible()) throw;
      log(Severity::info, gone.what());
    } catch (const rendezvous::MeetAgain& again) {
      if (!succession_.is_possible()) throw;
      log(Severity::info, again.what());
    }
    connection_ = succession_.successor(connection_->identity());
  }
}

// Returns true if the world has been made. Returns false if it could not be made, but the next one may succeed. Throws
// if this process cannot go on.
bool Job::Impl::start() try {
  make_world();
  phase_ = Phase::starting;
  return true;
} catch (const Error& error) {
  if (rendezvous::Interruption::asked() || !may_start_again(error)) give_up(error.what());
  log(Severity::info, text("world ", change_.generation, " could not be made: ", error.what()));
  return false;
} catch (const std::exception& error) {
  give_up(error.what());
}

// Runs a part of the synchronization, in which all ranks take part. If it fails, and this process cannot go on in
// another world, reports this to the other processes.
template <class Part>
void Job::Impl::together(Part part) try {
  part();
} catch (const Error& error) {
  if (!survives(error)) give_up(error.what());
  log(Severity::info, text("world ", change_.generation, " has failed before its training: ", error.what()));
  throw;
} catch (const std::exception& error) {
  give_up(error.what());
}

// Sends the reason to the other processes, and throws the exception that is being handled again. Call this only in a
// handler.
void Job::Impl::give_up(const std::string& reason) {
  connection_->fail(reason);
  if (world_) world::WorldMaker::leave(*world_);
  phase_ = Phase::over;
  throw;
}

// Ends this process's part if too many worlds in a row have ended without a commit, although no process has ended; for
// example because a link breaks again and again. Otherwise such worlds would follow each other for ever.
void Job::Impl::count_worlds(const rendezvous::Assigned& place) {
  constexpr int kWorlds = 10;
  const bool advances = state_.revision() != last_revision_ || !place.change.empty() || change_.generation == 0;
  last_revision_ = state_.revision();
  idle_worlds_ = advances ? 0 : idle_worlds_ + 1;
  if (idle_worlds_ < kWorlds) return;
  const std::string why = text(kWorlds, " worlds in a row have failed at commit ", state_.revision(),
                               " although no process has ended; ANELLO_LOG=info shows the errors");
  phase_ = Phase::over;
  connection_->fail(why);
  throw Error(ErrorCode::rendezvous, why);
}

// Returns true if this process may enter the next world after a start that has failed. After a mismatch, only a process
// that has the state, and is not at fault, goes on. Otherwise waits a moment, because the server reports within this
// time if the start has failed because a process has ended.
bool Job::Impl::may_start_again(const Error& error) {
  constexpr int kAttempts = 5;
  if (error.code() == ErrorCode::mismatch) return error.rank() != change_.rank && state_.holds();
  if (connection_->start_is_over(kMoment)) return true;
  if (!another_can_follow(error.code()) && error.code() != ErrorCode::timed_out) return false;
  if (begun_ && !state_.holds()) return false;
  if (error.rank() >= 0 && error.rank() != change_.rank) connection_->blame(error.rank(), error.what());
  return ++failed_starts_ < kAttempts;
}

// Destroys the world without World::finish(). This is right if the world has failed, and also if it ends as planned,
// because then all ranks leave it at the same commit.
void Job::Impl::leave_world() {
  if (!world_) return;
  if (phase_ == Phase::training || phase_ == Phase::ended) {
    paused_since_ = steady_clock::now();
    was_in_a_world_ = true;
  }
  groups_.clear();
  world_.reset();
  phase_ = Phase::left;
}

void Job::Impl::make_world() {
  set_log(rendezvous::log_severity(settings_), text("rank ", change_.rank));
  succession_.starts(*connection_);
  world_ = world::WorldMaker::make(
      connection_->identity(), [&](std::string blob) { return connection_->exchange(std::move(blob)); }, settings_,
      [&](std::chrono::milliseconds patience) {
        rendezvous::Interruption::check();
        connection_->check(patience);
      });
  connection_->leave(world::WorldMaker::port(*world_));
  rendezvous::log_start(*world_, settings_, connection_->identity().address);
}

void Job::Impl::synchronize() {
  check_phase("synchronize", phase_ == Phase::starting, "it is called once in each world, after enter()");
  together([&] {
    Synchronized result = elastic::synchronize(*world_, state_, begun_, options_.verify);
    note(result.sources, result.receivers, result.revision);
    change_.bytes = result.bytes;
  });
  begin_training();
}

void Job::Impl::begin_synchronization(std::string_view manifest) {
  constexpr const char* kCall = "begin_synchronization";
  check_phase(kCall, phase_ == Phase::starting, "it is called once in each world, after enter()");
  check_phase(kCall, StateAccess::contents(state_).entries.empty(),
              "the State has entries, which only synchronize() sends");
  together([&] { decision_ = elastic::begin_synchronization(*world_, state_, manifest, begun_); });
  note(decision_.sources, decision_.receivers, decision_.revision);
  phase_ = Phase::exchanging;
}

void Job::Impl::deliver(std::span<const Tensor> tensors) {
  check_phase("deliver", phase_ == Phase::exchanging, kBeginFirst);
  std::vector<Bytes> memory;
  for (const Tensor& each : tensors)
    memory.push_back({static_cast<std::byte*>(each.data), std::size_t(each.count) * size_bytes(each.dtype)});
  together([&] {
    for (Group& each : elastic::transfer(*world_, decision_, memory)) groups_.push_back(std::move(each));
  });
}

void Job::Impl::end_synchronization(const std::vector<EntryHash>& entries, std::uint64_t bytes) {
  check_phase("end_synchronization", phase_ == Phase::exchanging, kBeginFirst);
  together([&] { elastic::end_synchronization(*world_, state_, decision_, entries); });
  groups_.clear();
  change_.bytes = decision_.receivers.empty() ? 0 : bytes;
  begin_training();
}

void Job::Impl::note(const std::vector<int>& sources, const std::vector<int>& receivers, std::uint64_t revision) {
  change_.sources = sources;
  change_.receivers = receivers;
  change_.revision = revision;
}

void Job::Impl::begin_training() {
  succession_.trains();
  connection_->begin(change_.revision);
  phase_ = Phase::training;
  failed_starts_ = 0;
  change_.paused = steady_clock::now() - paused_since_;
  report();
  if (options_.on_change) options_.on_change(change_);
}

void Job::Impl::report() const {
  if (change_.rank != 0 || (change_.reason.empty() && !was_in_a_world_)) return;
  const std::string reason = change_.reason.empty() ? "no process has ended" : change_.reason;
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(change_.paused).count();
  std::string received;
  if (!change_.receivers.empty())
    received = text("; ", rank_list(change_.receivers), " received ", change_.bytes, " bytes, which ",
                    who_has(change_.sources), "too");
  log(Severity::warning,
      text("world ", change_.generation, " has ", change_.size, change_.size == 1 ? " rank" : " ranks",
           " and goes on after commit ", change_.revision, "; ", reason, received, "; paused for ", ms, " ms"));
}

void Job::Impl::begin_commit() {
  check_phase("commit", phase_ != Phase::ended, "the world has ended as planned: call next() or enter()");
  check_phase("commit", phase_ == Phase::training, "the state has not been synchronized in this world");
  StateAccess::contents(state_).begin_commit();
}
bool Job::Impl::end_commit() {
  check_phase("commit", phase_ == Phase::training, "the world in which this commit began has ended");
  StateAccess::contents(state_).end_commit();
  if (!connection_->ends_after(state_.revision())) return false;
  phase_ = Phase::ended;
  return true;
}

// Returns true if this process can go on in another world after this error. If the entries of the state differ, all
// ranks get the mismatch, and the ranks that are not at fault go on.
bool Job::Impl::survives(const Error& error) const {
  if (!world_ || phase_ == Phase::left || phase_ == Phase::over) return false;
  const bool synchronizes = phase_ == Phase::starting || phase_ == Phase::exchanging;
  if (synchronizes && error.code() == ErrorCode::mismatch)
    return error.rank() != change_.rank && (state_.holds() || error.rank() >= 0);
  return another_can_follow(error.code()) && world::WorldMaker::has_failed(*world_);
}

// If another rank ends before it has finished, the remaining ranks may have to repeat the last step. They do not need
// this rank for that, so this rank ends successfully.
void Job::Impl::finish() {
  check_phase("finish", phase_ == Phase::training, "the state has not been synchronized in this world");
  try {
    world_->finish();
  } catch (const Error& error) {
    if (!survives(error)) give_up(error.what());
    log(Severity::info, text("a rank has not finished: ", error.what()));
  }
  connection_->done();
  succession_.finish();
  world::WorldMaker::leave(*world_);
  phase_ = Phase::over;
}

Job::Job(State& state, Options options, const Settings& settings)
    : impl_(std::make_unique<Impl>(state, std::move(options), settings)) {}
// In a child that fork() made, does not destroy the object, because the child has neither the connection nor the
// threads.
Job::~Job() {
  if (impl_->in_child()) static_cast<void>(impl_.release());
}
bool Job::next() {
  while (impl_->enter()) {
    try {
      impl_->synchronize();
      return true;
    } catch (const Error& error) {
      if (!impl_->survives(error)) throw;
    }
  }
  return false;
}
bool Job::enter() {
  return impl_->enter();
}
World& Job::world() {
  return impl_->world();
}
const Change& Job::change() const {
  return impl_->change();
}
void Job::synchronize() {
  impl_->synchronize();
}
void Job::begin_synchronization(std::string_view manifest) {
  impl_->begin_synchronization(manifest);
}
void Job::deliver(std::span<const Tensor> tensors) {
  impl_->deliver(tensors);
}
void Job::end_synchronization(const std::vector<EntryHash>& entries, std::uint64_t bytes) {
  impl_->end_synchronization(entries, bytes);
}
void Job::commit(const std::function<void()>& update) {
  impl_->begin_commit();
  update();
  if (impl_->end_commit()) throw WorldEnds{};
}
void Job::begin_commit() {
  impl_->begin_commit();
}
bool Job::end_commit() {
  return impl_->end_commit();
}
bool Job::change_is_planned() const {
  return impl_->change_is_planned();
}
bool Job::survives(const Error& error) const {
  return impl_->survives(error);
}
void Job::finish() {
  impl_->finish();
}

}  // namespace anello::elastic
