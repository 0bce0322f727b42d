#include <anello/init.hpp>

#include "rendezvous/client.hpp"
#include "rendezvous/host.hpp"
#include "rendezvous/uncaught.hpp"
#include "ring/base/log.hpp"
#include "ring/base/text.hpp"
#include "ring/net/auth.hpp"
#include "ring/world/bootstrap.hpp"

namespace anello {
namespace {

void check_consistent(const Settings& settings) {
  if (settings.rank >= 0 && settings.size < 0)
    throw Error(ErrorCode::configuration,
                text("ANELLO_RANK=", settings.rank, " is set, but ANELLO_SIZE is not; set both"));
  if (settings.rank >= 0 && settings.rank >= settings.size)
    throw Error(ErrorCode::configuration,
                text("ANELLO_RANK=", settings.rank, " must be less than ANELLO_SIZE=", settings.size));
  if (settings.size > 1 && settings.rendezvous.empty())
    throw Error(ErrorCode::configuration,
                text("ANELLO_SIZE=", settings.size,
                     " needs ANELLO_RENDEZVOUS=host:port; start the ranks with `anello run`, or a server with `anello "
                     "rendezvous`"));
}

Severity log_severity(const Settings& settings) {
  Severity severity = Severity::warning;
  if (!parse(settings.log, severity))
    throw Error(ErrorCode::configuration,
                text("ANELLO_LOG must be error, warning, info or debug, not '", settings.log, "'"));
  return severity;
}

World world_of_one(const Settings& settings) {
  Identity identity;
  identity.job = settings.job;
  identity.host = rendezvous::host_name();
  identity.address = "127.0.0.1";
  return world::WorldMaker::make(
      identity, [](std::string blob) { return std::vector<std::string>{std::move(blob)}; }, settings);
}

}  // namespace

World init() {
  return init(Settings::from_environment());
}

World init(const Settings& settings) {
  rendezvous::handle_uncaught_exceptions();
  const Severity severity = log_severity(settings);
  set_log(severity, settings.rank >= 0 ? text("rank ", settings.rank) : "");
  check_consistent(settings);
  if (settings.rendezvous.empty()) return world_of_one(settings);

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
    return world;
  } catch (const std::exception& error) {
    client.fail(error.what());
    throw;
  }
}

}  // namespace anello
