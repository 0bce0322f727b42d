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
#include "ring/base/rank_list.hpp"
#include "ring/base/standard_descriptors.hpp"
#include "ring/base/text.hpp"
#include "ring/elastic/synchronize.hpp"
#include "ring/world/bootstrap.hpp"

namespace anello::elastic {
namespace {

using std::chrono::steady_clock;

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

 private:
  bool may_enter_again(const Error& error);
  void leave_world();
  void make_world();
  void synchronize(const rendezvous::Assigned& place);
  void report() const;

  const Settings settings_;
  State& state_;
  const Options options_;
  rendezvous::StandingConnection connection_;
  std::optional<World> world_;
  Change change_;
  int failed_starts_ = 0;  // in a row, by errors between ranks
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
    change_ = {.generation = place->generation, .rank = place->rank, .size = place->size, .reason = place->change};
    try {
      make_world();
      synchronize(*place);
      failed_starts_ = 0;
      change_.paused = steady_clock::now() - paused_since_;
      report();
      if (options_.on_change) options_.on_change(change_);
      return true;
    } catch (const Error& error) {
      if (!may_enter_again(error)) {
        connection_.fail(error.what());
        throw;
      }
      log(Severity::info, text("world ", place->generation, " has failed before its training: ", error.what()));
    }
    world_.reset();
  }
}

// Before the training, also an entry of a newcomer may not fit; then that one ends, and the others go on without it.
bool Job::Impl::may_enter_again(const Error& error) {
  if (connection_.start_is_over()) return true;
  if (world_ && error.code() == ErrorCode::mismatch) return error.rank() >= 0 && error.rank() != change_.rank;
  if (world_) return survives(error);
  constexpr int kAttempts = 5;  // to reach the other ranks; they may have ended a moment ago
  const bool of_others = another_can_follow(error.code()) || error.code() == ErrorCode::timed_out;
  return of_others && ++failed_starts_ < kAttempts;
}

// All ranks leave at the same commit if the world ends as planned. Otherwise it has failed.
void Job::Impl::leave_world() {
  if (!world_) return;
  paused_since_ = steady_clock::now();
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
  if (change_.rank != 0 || change_.reason.empty()) return;
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(change_.paused).count();
  std::string received;
  if (!change_.receivers.empty())
    received = text("; ", rank_list(change_.receivers), " received ", change_.bytes, " bytes from rank ",
                    change_.sources.front());
  log(Severity::warning, text("world ", change_.generation, " has ", change_.size, " ranks and goes on after commit ",
                              change_.revision, "; ", change_.reason, received, "; paused for ", ms, " ms"));
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
    log(Severity::info, text("a rank has not finished: ", error.what()));
  }
  connection_.done();
  world_.reset();
}

Job::Job(State& state, Options options, const Settings& settings)
    : impl_(std::make_unique<Impl>(state, std::move(options), settings)) {}
Job::~Job() = default;
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
