#include <anello/elastic.hpp>
#include <optional>
#include <utility>

#include "rendezvous/check_settings.hpp"
#include "rendezvous/client/standing_connection.hpp"
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
#include "ring/elastic/synchronize.hpp"
#include "ring/world/bootstrap.hpp"

namespace anello::elastic {
namespace {

using std::chrono::steady_clock;
constexpr std::chrono::milliseconds kMoment{2000};

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

// The world has failed, but not by a mistake of the program, which would be repeated in the next one.
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

}  // namespace

class Job::Impl {
 public:
  Impl(State& state, Options options, const Settings& settings)
      : settings_(checked(settings)),
        state_(state),
        options_(std::move(options)),
        connection_(settings_, rendezvous::read_job_secret(settings_)) {}

  bool next();
  World& world();
  const Change& change() const { return change_; }
  void commit(const std::function<void()>& update);
  bool survives(const Error& error) const;
  void finish();
  bool in_child() const { return process_.in_child(); }

 private:
  bool start(const rendezvous::Assigned& place);
  [[noreturn]] void give_up(const std::string& reason);
  void count_worlds(const rendezvous::Assigned& place);
  bool may_enter_again(const Error& error, bool begun);
  void leave_world();
  void make_world();
  void synchronize(const rendezvous::Assigned& place);
  void report() const;

  ProcessMark process_;
  const Settings settings_;
  State& state_;
  const Options options_;
  rendezvous::StandingConnection connection_;
  std::optional<World> world_;
  Change change_;
  int failed_starts_ = 0;  // in a row, by errors between ranks
  int idle_worlds_ = 0;    // in a row, without a commit and without a change of processes
  std::uint64_t last_revision_ = 0;
  bool was_in_a_world_ = false;
  steady_clock::time_point paused_since_ = steady_clock::now();
};

World& Job::Impl::world() {
  if (!world_) throw Error(ErrorCode::invalid_argument, "there is no world yet: call next() first");
  return *world_;
}

bool Job::Impl::next() {
  leave_world();
  for (;;) {
    const std::optional<rendezvous::Assigned> place = connection_.enter(change_.generation);
    if (!place) return false;
    count_worlds(*place);
    change_ = {.generation = place->generation, .rank = place->rank, .size = place->size, .reason = place->change};
    if (!start(*place)) continue;
    change_.paused = steady_clock::now() - paused_since_;
    report();
    if (options_.on_change) options_.on_change(change_);
    return true;
  }
}

// Returns false if the next world may succeed.
bool Job::Impl::start(const rendezvous::Assigned& place) try {
  make_world();
  synchronize(place);
  failed_starts_ = 0;
  return true;
} catch (const Error& error) {
  if (!may_enter_again(error, place.begun)) give_up(error.what());
  log(Severity::info, text("world ", place.generation, " has failed before its training: ", error.what()));
  world_.reset();
  return false;
} catch (const std::exception& error) {
  give_up(error.what());
}

// Called in a handler. The other processes receive the reason.
void Job::Impl::give_up(const std::string& reason) {
  connection_.fail(reason);
  world_.reset();
  throw;
}

// Worlds that end although no process has ended, such as by a link that breaks again and again, must not follow each
// other for ever.
void Job::Impl::count_worlds(const rendezvous::Assigned& place) {
  constexpr int kWorlds = 10;
  const bool advances = state_.revision() != last_revision_ || !place.change.empty() || change_.generation == 0;
  last_revision_ = state_.revision();
  idle_worlds_ = advances ? 0 : idle_worlds_ + 1;
  if (idle_worlds_ < kWorlds) return;
  const std::string why = text(kWorlds, " worlds in a row have failed at commit ", state_.revision(),
                               " although no process has ended; ANELLO_LOG=info shows the errors");
  connection_.fail(why);
  throw Error(ErrorCode::rendezvous, why);
}

// A process that has the state goes on, and one that comes without it and does not fit ends. The server says within a
// moment whether the start has failed because a process has ended.
bool Job::Impl::may_enter_again(const Error& error, bool begun) {
  constexpr int kAttempts = 5;
  if (error.code() == ErrorCode::mismatch)
    return error.rank() != change_.rank && (state_.holds() || (world_ && error.rank() >= 0));
  if (world_) return survives(error);
  if (connection_.start_is_over(kMoment)) return true;
  if (!another_can_follow(error.code()) && error.code() != ErrorCode::timed_out) return false;
  if (begun && !state_.holds()) return false;
  if (error.rank() >= 0 && error.rank() != change_.rank) connection_.blame(error.rank(), error.what());
  return ++failed_starts_ < kAttempts;
}

// All ranks leave at the same commit if the world ends as planned. Otherwise it has failed.
void Job::Impl::leave_world() {
  if (!world_) return;
  paused_since_ = steady_clock::now();
  was_in_a_world_ = true;
  world_.reset();
}

void Job::Impl::make_world() {
  set_log(rendezvous::log_severity(settings_), text("rank ", change_.rank));
  world_ = world::WorldMaker::make(
      connection_.identity(), [&](std::string blob) { return connection_.exchange(std::move(blob)); }, settings_,
      [&](std::chrono::milliseconds patience) {
        rendezvous::Interruption::check();
        connection_.check(patience);
      });
  connection_.leave(world::WorldMaker::port(*world_));
  rendezvous::log_start(*world_, settings_, connection_.identity().address);
}

void Job::Impl::synchronize(const rendezvous::Assigned& place) {
  Synchronized result = elastic::synchronize(*world_, state_, place.begun, options_.verify);
  change_.revision = result.revision;
  change_.sources = std::move(result.sources);
  change_.receivers = std::move(result.receivers);
  change_.bytes = result.bytes;
  connection_.begin(result.revision);
}

void Job::Impl::report() const {
  if (change_.rank != 0 || (change_.reason.empty() && !was_in_a_world_)) return;
  const std::string reason = change_.reason.empty() ? "no process has ended" : change_.reason;
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(change_.paused).count();
  std::string received;
  if (!change_.receivers.empty())
    received = text("; ", rank_list(change_.receivers), " received ", change_.bytes, " bytes from rank ",
                    change_.sources.front());
  log(Severity::warning,
      text("world ", change_.generation, " has ", change_.size, change_.size == 1 ? " rank" : " ranks",
           " and goes on after commit ", change_.revision, "; ", reason, received, "; paused for ", ms, " ms"));
}

void Job::Impl::commit(const std::function<void()>& update) {
  state_.commit(update);
  if (connection_.ends_after(state_.revision())) throw WorldEnds{};
}

bool Job::Impl::survives(const Error& error) const {
  return world_ && another_can_follow(error.code()) && world::WorldMaker::has_failed(*world_);
}

// If a rank ends before it has finished, the others may redo the last step; they do not need this rank.
void Job::Impl::finish() {
  try {
    world().finish();
  } catch (const Error& error) {
    if (!survives(error)) give_up(error.what());
    log(Severity::info, text("a rank has not finished: ", error.what()));
  }
  connection_.done();
  world_.reset();
}

Job::Job(State& state, Options options, const Settings& settings)
    : impl_(std::make_unique<Impl>(state, std::move(options), settings)) {}
// A child that fork() made has neither the connection nor the threads.
Job::~Job() {
  if (impl_->in_child()) static_cast<void>(impl_.release());
}
bool Job::next() {
  return impl_->next();
}
World& Job::world() {
  return impl_->world();
}
const Change& Job::change() const {
  return impl_->change();
}
void Job::commit(const std::function<void()>& update) {
  impl_->commit(update);
}
bool Job::survives(const Error& error) const {
  return impl_->survives(error);
}
void Job::finish() {
  impl_->finish();
}

}  // namespace anello::elastic
