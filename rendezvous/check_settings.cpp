#include "rendezvous/check_settings.hpp"

#include "rendezvous/join/home_secret.hpp"
#include "ring/base/text.hpp"
#include "ring/net/addresses.hpp"
#include "ring/net/handshake.hpp"

namespace anello::rendezvous {
namespace {

void check_consistent(const Settings& settings) {
  if (settings.rank >= 0 && settings.size < 0)
    throw Error(ErrorCode::configuration,
                text("ANELLO_RANK=", settings.rank, " is set, but ANELLO_SIZE is not; set both"));
  if (settings.rank >= 0 && settings.rank >= settings.size)
    throw Error(ErrorCode::configuration,
                text("ANELLO_RANK=", settings.rank, " must be less than ANELLO_SIZE=", settings.size,
                     settings.size == 1 ? "; for a world of one, unset ANELLO_RANK and ANELLO_RENDEZVOUS" : ""));
}

}  // namespace

Severity log_severity(const Settings& settings) {
  Severity severity = Severity::warning;
  if (!parse(settings.log, severity))
    throw Error(ErrorCode::configuration,
                text("ANELLO_LOG must be error, warning, info or debug, not '", settings.log, "'"));
  return severity;
}

void check_settings(const Settings& settings, const world::Refuse& refuse) {
  using world::attempt;
  attempt(refuse, [&] { log_severity(settings); });
  attempt(refuse, [&] { check_consistent(settings); });
}

void check_joining(const Settings& settings, const world::Refuse& refuse) {
  using world::attempt;
  attempt(refuse, [&] { net::require_usable({settings.job, read_job_secret(settings)}); });
  attempt(refuse, [&] { net::choose_addresses(settings.iface, "127.0.0.1", net::local_interfaces()); });
}

}  // namespace anello::rendezvous
