#include <anello/init.hpp>
#include <mutex>

#include "rendezvous/check_settings.hpp"
#include "rendezvous/client.hpp"
#include "rendezvous/home_secret.hpp"
#include "rendezvous/host.hpp"
#include "rendezvous/init_through.hpp"
#include "rendezvous/meeting.hpp"
#include "rendezvous/slurm_step.hpp"
#include "rendezvous/start_log.hpp"
#include "rendezvous/uncaught.hpp"
#include "ring/base/config.hpp"
#include "ring/base/log.hpp"
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

// Once, though a program may have several worlds.
void warn_of_being_alone() {
  static std::once_flag once;
  std::call_once(once, [] {
    for (const std::string& sentence :
         {rendezvous::alone_in_an_allocation(environment), rendezvous::alone_by_half_of_the_variables(environment)})
      if (!sentence.empty()) log(Severity::warning, sentence);
  });
}

// Joins the ranks that the server brings together. `given` are the settings as the program or the environment has them.
// `generation` becomes that of the world.
World join(const Settings& settings, RendezvousClient& client, const Settings& given, std::uint32_t& generation) {
  const Identity& identity = client.identity();
  generation = identity.generation;
  set_log(rendezvous::log_severity(settings), text("rank ", identity.rank));
  if (given.local_rank >= 0 && given.local_rank != identity.local_rank)
    log(Severity::warning, text("ANELLO_LOCAL_RANK=", given.local_rank, " contradicts the ranks of ", identity.host,
                                "; using local rank ", identity.local_rank));
  try {
    World world = world::WorldMaker::make(
        identity, [&](std::string blob) { return client.exchange(std::move(blob)); }, settings,
        [&](std::chrono::milliseconds patience) { client.check(patience); });
    client.leave(world::WorldMaker::port(world));
    rendezvous::log_start(world, settings, identity.address);
    return world;
  } catch (const std::exception& error) {
    client.fail(error.what());
    throw;
  }
}

// At the server of ANELLO_RENDEZVOUS.
World join_by_settings(const Settings& settings, const Settings& given, std::uint32_t& generation) {
  rendezvous::check_joining(settings, [](const Error& error) { throw error; });
  RendezvousClient client(settings, rendezvous::read_job_secret(settings));
  return join(settings, client, given, generation);
}

// At the server that one of the ranks runs.
World join_by_meeting(const rendezvous::JoinPlan& plan, const Settings& given, std::uint32_t& generation,
                      const rendezvous::MeetingHooks& hooks = {}) {
  rendezvous::Meeting meeting(plan, hooks);
  RendezvousClient client(meeting.settings(), meeting.secret(), meeting.server());
  World world = join(meeting.settings(), client, given, generation);
  meeting.wait_for_others();
  return world;
}

void begin(const Settings& settings) {
  rendezvous::handle_uncaught_exceptions();
  set_log(rendezvous::log_severity(settings), settings.rank >= 0 ? text("rank ", settings.rank) : "");
  if (settings.local_rank <= 0)
    for (const std::string& sentence : misspelt_settings()) log(Severity::warning, sentence);
  rendezvous::check_settings(settings, [](const Error& error) { throw error; });
}

}  // namespace

World rendezvous::init_through(std::unique_ptr<KeyValueSpace> space, Settings settings) {
  settings.rank = space->rank();
  settings.size = space->size();
  settings.rendezvous.clear();
  begin(settings);
  if (settings.size == 1) return world_of_one(settings);
  const Placement way{.launcher = space->name(), .rank = settings.rank, .size = settings.size, .way = Way::pmi};
  MeetingHooks hooks;
  hooks.open_space = [&](Way, std::chrono::milliseconds) { return std::move(space); };
  hooks.world_number = [] { return 1; };  // the space has a name of its own
  std::uint32_t generation = 0;
  return join_by_meeting({settings, false, {way}}, settings, generation, hooks);
}

World init() {
  return init(Settings::from_environment());
}

World init(const Settings& settings) {
  begin(settings);
  const std::vector<rendezvous::Placement> found = rendezvous::placements();
  const rendezvous::JoinPlan plan = rendezvous::plan_join(settings, found);
  if (plan.alone) {
    if (settings.size < 0 && found.empty()) warn_of_being_alone();
    return world_of_one(settings);
  }
  std::uint32_t generation = 0;  // of the world that this rank has joined
  try {
    return plan.ways.empty() ? join_by_settings(plan.settings, settings, generation)
                             : join_by_meeting(plan, settings, generation);
  } catch (const Error& error) {
    world::send_last_word(settings.report_fd, {plan.settings.rank, error.rank(), error.message(), generation});
    throw;
  }
}

}  // namespace anello
