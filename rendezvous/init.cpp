#include <anello/init.hpp>

#include "rendezvous/check_settings.hpp"
#include "rendezvous/client.hpp"
#include "rendezvous/host.hpp"
#include "rendezvous/start_log.hpp"
#include "rendezvous/uncaught.hpp"
#include "ring/base/config.hpp"
#include "ring/base/log.hpp"
#include "ring/base/text.hpp"
#include "ring/net/auth.hpp"
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

// Joins the ranks that the server brings together.
World join(const Settings& settings, Severity severity) {
  RendezvousClient client(settings, net::read_secret(settings));
  const Identity& identity = client.identity();
  set_log(severity, text("rank ", identity.rank));
  if (settings.local_rank >= 0 && settings.local_rank != identity.local_rank)
    log(Severity::warning, text("ANELLO_LOCAL_RANK=", settings.local_rank, " contradicts the ranks of ", identity.host,
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

}  // namespace

World init() {
  return init(Settings::from_environment());
}

World init(const Settings& settings) {
  rendezvous::handle_uncaught_exceptions();
  const Severity severity = rendezvous::log_severity(settings);
  set_log(severity, settings.rank >= 0 ? text("rank ", settings.rank) : "");
  if (settings.local_rank <= 0)
    for (const std::string& sentence : misspelt_settings()) log(Severity::warning, sentence);
  const auto refuse = [](const Error& error) { throw error; };
  rendezvous::check_settings(settings, refuse);
  if (settings.rendezvous.empty()) return world_of_one(settings);
  rendezvous::check_joining(settings, refuse);
  try {
    return join(settings, severity);
  } catch (const Error& error) {
    world::send_last_word(settings.report_fd, {settings.rank, error.rank(), error.message()});
    throw;
  }
}

}  // namespace anello
