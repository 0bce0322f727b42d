#include "rendezvous/launch/cli/run_command.hpp"

#include <anello/error.hpp>
#include <iostream>
#include <memory>

#include "rendezvous/check_settings.hpp"
#include "rendezvous/join/home_secret.hpp"
#include "rendezvous/join/join_plan.hpp"
#include "rendezvous/launch/base/timestamp.hpp"
#include "rendezvous/launch/cli/dry_run.hpp"
#include "rendezvous/launch/cli/options.hpp"
#include "rendezvous/launch/cli/secret.hpp"
#include "rendezvous/launch/job/environment.hpp"
#include "rendezvous/launch/job/master.hpp"
#include "rendezvous/launch/job/start_command.hpp"
#include "rendezvous/launch/run/run.hpp"
#include "rendezvous/protocol/describe.hpp"
#include "rendezvous/server/server.hpp"
#include "ring/base/config.hpp"
#include "ring/base/log.hpp"
#include "ring/net/addresses.hpp"
#include "ring/net/sockets.hpp"

namespace anello::launch {
namespace {

// Returns the secret for several launchers that start one world together.
std::string shared_secret(const Job& job, const Settings& settings) {
  const std::string host = net::parse_host_port("--rendezvous", job.rendezvous).host;
  std::string secret = rendezvous::read_server_secret(settings, host);
  if (secret.empty() && host != "localhost" && !net::is_loopback(host))
    throw Error(
        ErrorCode::configuration,
        "--rendezvous on several hosts needs a secret: `anello secret` makes one for all hosts that share your home; "
        "elsewhere `anello secret FILE` does: copy it to all hosts and set ANELLO_SECRET_FILE");
  return secret;
}

// Returns the address and port at which the rendezvous of a job listens.
ServerOptions server_place(const Job& job) {
  ServerOptions options;
  if (job.remote && (!all_on_this_host(job) || job.hosts_may_change())) options.listen_address = net::any_address();
  if (job.rendezvous.empty()) return options;
  const net::HostPort where = net::parse_host_port("--rendezvous", job.rendezvous);
  options.listen_address = job.secret.empty() || net::is_loopback(where.host) ? where.host : net::any_address();
  options.port = where.port;
  return options;
}

ElasticLimits elastic_limits(const Job& job, const Settings& settings) {
  ElasticLimits limits{job.elastic->min, job.elastic->max, job.elastic->first, job.elastic->patience};
  if (settings.silence_limit.count() > 0) limits.silence = settings.silence_limit;
  return limits;
}

MembershipView view_of(const ElasticStatus& status) {
  MembershipView out{status.generation, status.worlds_formed, status.begun, status.finished, {}};
  for (const ElasticStatus::Process& one : status.processes)
    out.members.push_back({one.place, one.rank, one.id, one.awaited, one.retires, one.trained});
  out.released = status.released;
  out.lost = status.lost;
  for (const auto& [generation, seats] : status.ranks)
    for (const ElasticStatus::Seat& each : seats) out.ranks[generation].push_back({each.place, each.id});
  return out;
}

std::unique_ptr<RendezvousServer> start_server(const Job& job, const Settings& settings) {
  ServerOptions options = server_place(job);
  options.job = job.name;
  options.secret = job.secret;
  options.size = job.size;
  options.start_timeout = settings.start_timeout;
  if (job.elastic) options.elastic = elastic_limits(job, settings);
  // Ranks on other hosts connect to the server, and a firewall may allow only some ports.
  net::PortRange ports{options.port, options.port};
  if (job.remote) ports = net::parse_port_range(settings.port_range);
  std::unique_ptr<RendezvousServer> server;
  net::at_first_free(ports, [&](std::uint16_t port) {
    options.port = port;
    server = std::make_unique<RendezvousServer>(options);
  });
  return server;
}

// Several launchers may start one world. The launcher that has rank 0 calls this if it cannot start its ranks. The
// ranks of the other launchers look for the server until the limit of their start has passed. So this function serves
// until that time, or until all of these ranks have received the reason.
int refuse_start(const Job& job, const Settings& settings, const Error& why) {
  std::cerr << "anello: " << why.what() << "; the other hosts receive this error within "
            << rendezvous::seconds(settings.start_timeout) << std::endl;
  const auto server = start_server(job, settings);
  const HostRanks& here = job.layout.front();
  // If a rank received Error{network}, it would take this error for a failure of its own connection, and try again.
  const Error reason(ErrorCode::rendezvous, why.message());
  for (int rank = here.first; rank < here.first + here.count; rank++) server->conclude(reason, rank);
  server->wait_until_concluded(settings.start_timeout);
  return 1;
}

}  // namespace

int run_command(const Words& words, char** argv) {
  Job job;
  if (const auto exit_code = parse_run(words, job)) return *exit_code;
  if (job.rendezvous.empty())
    rendezvous::require_one_copy("anello run", Settings::from_environment(), rendezvous::placements());
  const Settings settings = Settings::from_environment();
  job.name = job.rendezvous.empty() ? make_name() : settings.job;
  job.secret = job.rendezvous.empty() ? make_secret() : shared_secret(job, settings);
  const auto time_now = [] { return timestamp(std::chrono::steady_clock::now()); };
  set_log(rendezvous::log_severity(settings), "rendezvous", job.timestamps ? LineStart(time_now) : nullptr);
  job.silence_limit = settings.silence_limit;
  const bool port_given = !job.master.port.empty();
  if (!job.rendezvous.empty()) job.master = agreed_master(job);
  check_exported(job);
  if (job.dry_run) return std::cout << describe(job), 0;
  if (job.verbose) std::cerr << describe(job);
  if (!job.rendezvous.empty() && !port_given && job.layout.front().has(0)) try {
      require_free(job.master);
    } catch (const Error& error) {
      return refuse_start(job, settings, error);
    }
  std::unique_ptr<RendezvousServer> server;
  RendezvousHooks hooks;
  hooks.open = [&](const Job& started) {
    if (!started.layout.front().has(0)) return server_place(started).port;  // another launcher has the server
    server = start_server(started, settings);
    return server->port();
  };
  hooks.close = [&] { server.reset(); };
  hooks.abort = [&](int culprit, const std::string& reason) { return server && server->abort(culprit, reason); };
  hooks.exited = [&](int rank) {
    if (server) server->exited(rank);
  };
  hooks.membership = [&] { return server ? view_of(server->elastic_status()) : MembershipView{}; };
  hooks.retire = [&](int place) {
    if (server) server->retire(place);
  };
  hooks.expect = [&](int newcomers) {
    if (server) server->expect(newcomers);
  };
  hooks.newest_world = [&] { return server ? server->stats().newest : 0; };
  return launch::run(job, hooks, argv);
}

}  // namespace anello::launch
