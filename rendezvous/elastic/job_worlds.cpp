// How a process of an elastic job enters worlds, and leaves them.
#include <utility>

#include "rendezvous/check_settings.hpp"
#include "rendezvous/elastic/job_impl.hpp"
#include "rendezvous/join/home_secret.hpp"
#include "rendezvous/protocol/describe.hpp"
#include "rendezvous/protocol/interruption.hpp"
#include "rendezvous/start_log.hpp"
#include "rendezvous/uncaught.hpp"
#include "ring/base/config.hpp"
#include "ring/base/log.hpp"
#include "ring/base/standard_descriptors.hpp"
#include "ring/base/text.hpp"
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

}  // namespace

Job::Impl::Impl(State& state, Options options, const Settings& settings)
    : settings_(checked(settings)),
      state_(state),
      options_(std::move(options)),
      succession_(settings_),
      connection_(std::make_unique<rendezvous::StandingConnection>(settings_, rendezvous::read_job_secret(settings_))) {
  connection_->pass_on(notice_.emplace(settings_));
}

bool Job::Impl::enter() {
  check_phase("enter", phase_ != Phase::over, "this process's part in the job has ended");
  leave_world();
  for (;;) {
    const std::optional<rendezvous::Assigned> place = enter_next();
    if (!place) {
      end_part();
      return false;
    }
    count_worlds(*place);
    begun_ = place->begun;
    change_ = {.generation = place->generation, .rank = place->rank, .size = place->size, .reason = place->change};
    if (start()) return true;
  }
}

// Enters the next world at the server, or, if the server has ended, at the successor of the server.
std::optional<rendezvous::Assigned> Job::Impl::enter_next() try {
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
    replace_connection(succession_.successor(connection_->identity()));
  }
} catch (...) {
  end_part();
  throw;
}

void Job::Impl::replace_connection(std::unique_ptr<rendezvous::StandingConnection> next) {
  {
    const MutexLock lock(replacement_);
    connection_.swap(next);
  }
  next.reset();
  connection_->pass_on(notice_.value());
}

// Ends this process's part in the job. While this process still serves the others, a second signal of its scheduler
// ends it. When it does not serve any more, every signal has its usual effect.
void Job::Impl::end_part() {
  succession_.finish();
  notice_.reset();
  phase_ = Phase::over;
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

// Sends the reason to the other processes, and rethrows the exception that is being handled. Call this only in a
// handler.
void Job::Impl::give_up(const std::string& reason) {
  connection_->fail(reason);
  succession_.stop();
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
  succession_.stop();
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

}  // namespace anello::elastic
