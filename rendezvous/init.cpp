#include <anello/init.hpp>
#include <functional>
#include <mutex>
#include <optional>

#include "rendezvous/check_settings.hpp"
#include "rendezvous/client/client.hpp"
#include "rendezvous/init_through.hpp"
#include "rendezvous/join/home_secret.hpp"
#include "rendezvous/join/meeting.hpp"
#include "rendezvous/join/slurm_step.hpp"
#include "rendezvous/join/start_turn.hpp"
#include "rendezvous/protocol/describe.hpp"
#include "rendezvous/protocol/host.hpp"
#include "rendezvous/protocol/interruption.hpp"
#include "rendezvous/protocol/retry.hpp"
#include "rendezvous/start_log.hpp"
#include "rendezvous/uncaught.hpp"
#include "ring/base/config.hpp"
#include "ring/base/log.hpp"
#include "ring/base/standard_descriptors.hpp"
#include "ring/base/text.hpp"
#include "ring/world/bootstrap.hpp"
#include "ring/world/last_word.hpp"

namespace anello {
namespace {

World world_of_one(const Settings& settings) {
  Identity identity;
  identity.job = settings.job;
  identity.host = rendezvous::host_name();
  identity.address = "127.0.0.1";
  World world = world::WorldMaker::make(
      identity, [](std::string blob) { return std::vector<std::string>{std::move(blob)}; }, settings);
  rendezvous::log_start(world, settings, identity.address);
  return world;
}

// Warns only once in a process, even if the program makes several worlds.
void warn_of_being_alone() {
  static std::once_flag once;
  std::call_once(once, [] {
    for (const std::string& sentence :
         {rendezvous::alone_in_an_allocation(environment), rendezvous::alone_by_half_of_the_variables(environment)})
      if (!sentence.empty()) log(Severity::warning, sentence);
  });
}

// The progress of a start, for its failure.
struct Progress {
  std::uint32_t generation = 0;  // generation of the world that this rank has joined
  bool others_informed = false;  // true if the other ranks have received this rank's failure
};

// Joins the world of the ranks that the server brings together. `given`: the settings of the program or the
// environment, before init() has changed any.
World join(const Settings& settings, RendezvousClient& client, const Settings& given, Progress& progress) {
  const Identity& identity = client.identity();
  progress.generation = identity.generation;
  set_log(rendezvous::log_severity(settings), text("rank ", identity.rank));
  if (given.local_rank >= 0 && given.local_rank != identity.local_rank)
    log(Severity::warning,
        text("ANELLO_LOCAL_RANK=", given.local_rank, " contradicts the ranks of ", identity.host, "; using local rank ",
             identity.local_rank, "; perhaps the list of hosts has that one twice, by two names"));
  try {
    World world = world::WorldMaker::make(
        identity, [&](std::string blob) { return client.exchange(std::move(blob)); }, settings,
        [&](std::chrono::milliseconds patience) {
          rendezvous::Interruption::check();
          client.check(patience);
        });
    client.leave(world::WorldMaker::port(world));
    rendezvous::log_start(world, settings, identity.address);
    return world;
  } catch (const std::exception& error) {
    client.fail(error);
    throw;
  }
}

// Joins the world at the server that ANELLO_RENDEZVOUS names.
World join_by_settings(const Settings& settings, const Settings& given, Progress& progress) {
  rendezvous::check_joining(settings, [](const Error& error) { throw error; });
  RendezvousClient client(settings, rendezvous::read_job_secret(settings));
  return join(settings, client, given, progress);
}

// Joins the world at a server that one of the ranks runs.
World join_at_meeting(const rendezvous::JoinPlan& plan, const Settings& given, Progress& progress,
                      const rendezvous::MeetingHooks& hooks) {
  rendezvous::Meeting meeting(plan, hooks);
  try {
    RendezvousClient client(meeting.settings(), meeting.secret(), meeting.server());
    World world = join(meeting.settings(), client, given, progress);
    meeting.wait_for_others(progress.generation);
    return world;
  } catch (const rendezvous::MeetAgain&) {
    throw;
  } catch (const std::exception& error) {
    progress.others_informed = meeting.runs_server();
    meeting.conclude(rendezvous::as_error(error));
    throw;
  }
}

// Ranks may meet while another start of their job is ending. In that case they meet again.
World join_by_meeting(rendezvous::JoinPlan plan, const Settings& given, Progress& progress,
                      const rendezvous::MeetingHooks& hooks = {}) {
  const auto deadline = std::chrono::steady_clock::now() + plan.settings.start_timeout;
  // With PMI, the key-value space gives each start a name of its own.
  const bool has_a_name = plan.ways.front().way == rendezvous::Way::pmi;
  std::optional<rendezvous::StartTurn> turn;
  if (!has_a_name) turn.emplace(text(plan.ways.front().job, " ", plan.settings.job), deadline);
  for (;;) try {
      plan.settings.start_timeout = rendezvous::time_left(deadline);
      return join_at_meeting(plan, given, progress, hooks);
    } catch (const rendezvous::MeetAgain&) {
      if (has_a_name || rendezvous::time_left(deadline) <= rendezvous::kFirstRest) throw;
      rendezvous::Interruption::sleep(rendezvous::kFirstRest);
    }
}

constexpr std::chrono::milliseconds kInformLimit{3000};

// Rank 0 runs the server for up to kInformLimit, and informs the ranks that join. If a server of another start has the
// job's name, this rank tries to join at that server, and waits. That other start soon fails, because two of its
// processes then have rank 0.
void inform_as_server(rendezvous::JoinPlan plan, const Error& why) {
  const auto deadline = std::chrono::steady_clock::now() + kInformLimit;
  for (; plan.settings.start_timeout.count() > 0; plan.settings.start_timeout = rendezvous::time_left(deadline)) {
    rendezvous::Meeting meeting(plan);
    if (meeting.runs_server()) return meeting.conclude(why);
    try {
      RendezvousClient client(meeting.settings(), meeting.secret(), meeting.server());
    } catch (const Error& error) {
      log(Severity::debug, text("the name of this job is not free yet: ", error.what()));
    }
    rendezvous::Interruption::sleep(rendezvous::kFirstRest);
  }
}

// Informs the other ranks that this rank cannot start although its place in the job was found. Meets the other ranks
// only for this purpose.
void inform_others(const rendezvous::JoinPlan& plan, const Error& why) try {
  if (plan.alone) return;
  rendezvous::JoinPlan brief = plan;
  brief.settings.start_timeout = std::min(kInformLimit, plan.settings.start_timeout);
  if (plan.ways.empty())
    return RendezvousClient::report_failure(brief.settings, rendezvous::read_job_secret(brief.settings), {}, why);
  const rendezvous::Placement& way = plan.ways.front();
  // The process manager ends the other ranks.
  if (way.way == rendezvous::Way::pmi || way.way == rendezvous::Way::pmix) return;
  if (way.serves) return inform_as_server(brief, why);
  const rendezvous::Meeting meeting(brief);
  RendezvousClient::report_failure(meeting.settings(), meeting.secret(), meeting.server(), why);
} catch (const std::exception& error) {
  log(Severity::info, text("the other ranks could not be informed: ", error.what()));
}

// Returns the environment's settings without those that cannot be parsed.
Settings readable_settings() {
  Settings settings;
  for (const auto& [variable, value] : environment_settings()) try {
      settings.set(text(variable, "=", value));
    } catch (const Error&) {
    }
  return settings;
}

void begin(const Settings& settings) {
  set_log(rendezvous::log_severity(settings), settings.rank >= 0 ? text("rank ", settings.rank) : "");
  if (settings.local_rank <= 0)
    for (const std::string& sentence : misspelt_settings()) log(Severity::warning, sentence);
  rendezvous::check_settings(settings, [](const Error& error) { throw error; });
}

// Reads the settings after the process's place in its job has been found. So if the settings are wrong, this rank can
// inform the other ranks.
Settings settings_of_rank(const std::function<Settings()>& read, const std::vector<rendezvous::Placement>& found) {
  try {
    Settings settings = read();
    begin(settings);
    return settings;
  } catch (const std::exception& error) {
    try {
      inform_others(rendezvous::plan_join(readable_settings(), found), rendezvous::as_error(error));
    } catch (const std::exception&) {  // the other ranks cannot be informed
    }
    throw;
  }
}

// Returns false if the start failed because another rank is missing or has failed, or because the user interrupted it.
bool is_own_fault(const std::exception& thrown) {
  const auto* error = dynamic_cast<const Error*>(&thrown);
  return !error || (error->code() != ErrorCode::rendezvous && error->code() != ErrorCode::aborted);
}

// Joins by the plan. If this rank itself is at fault for a failure, informs the other ranks, unless the start's
// deadline has passed, because after that they do not wait. If a server has refused this rank as a second rank 0, that
// server belongs to another start, so this rank still informs the late ranks of its own start.
World join_by_plan(const rendezvous::JoinPlan& plan, const Settings& given, Progress& progress) {
  const auto deadline = std::chrono::steady_clock::now() + plan.settings.start_timeout;
  try {
    return plan.ways.empty() ? join_by_settings(plan.settings, given, progress)
                             : join_by_meeting(plan, given, progress);
  } catch (const std::exception& error) {
    const bool from_server = dynamic_cast<const rendezvous::StartFailed*>(&error);
    const bool informed = progress.others_informed || (from_server && (plan.settings.rank != 0 || plan.ways.empty()));
    if (!informed && is_own_fault(error) && progress.generation == 0 && rendezvous::time_left(deadline).count() > 0)
      inform_others(plan, rendezvous::as_error(error));
    throw;
  }
}

}  // namespace

World rendezvous::init_through(std::unique_ptr<KeyValueSpace> space, Settings settings) {
  settings.rank = space->rank();
  settings.size = space->size();
  settings.rendezvous.clear();
  open_missing_standard_descriptors();
  handle_uncaught_exceptions();
  begin(settings);
  // The launcher's local rank is not used, because the world may be only a part of the launcher's job.
  settings.local_rank = -1;
  if (settings.size == 1) return world_of_one(settings);
  const Placement way{.launcher = space->name(), .rank = settings.rank, .size = settings.size, .way = Way::pmi};
  MeetingHooks hooks;
  hooks.open_space = [&](Way, std::chrono::milliseconds) { return std::move(space); };
  Progress progress;
  return join_by_meeting({settings, false, {way}}, settings, progress, hooks);
}

World rendezvous::init_with(const std::function<Settings()>& read) {
  open_missing_standard_descriptors();
  handle_uncaught_exceptions();
  const std::vector<Placement> found = placements();
  const Settings settings = settings_of_rank(read, found);
  const JoinPlan plan = plan_join(settings, found);
  if (plan.alone) {
    if (settings.size < 0 && found.empty()) warn_of_being_alone();
    return world_of_one(settings);
  }
  Progress progress;
  try {
    return join_by_plan(plan, settings, progress);
  } catch (const Error& error) {
    world::send_last_word(settings.report_fd, {plan.settings.rank, error.rank(), error.message(), progress.generation});
    throw;
  }
}

World init() {
  return rendezvous::init_with(Settings::from_environment);
}

World init(const Settings& settings) {
  return rendezvous::init_with([&] { return settings; });
}

}  // namespace anello
