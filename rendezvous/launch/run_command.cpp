#include "rendezvous/launch/run_command.hpp"

#include <anello/error.hpp>
#include <iostream>
#include <memory>

#include "rendezvous/check_settings.hpp"
#include "rendezvous/launch/dry_run.hpp"
#include "rendezvous/launch/options.hpp"
#include "rendezvous/launch/run.hpp"
#include "rendezvous/launch/secret.hpp"
#include "rendezvous/launch/start_command.hpp"
#include "rendezvous/join_plan.hpp"
#include "rendezvous/server.hpp"
#include "ring/base/config.hpp"
#include "ring/base/log.hpp"
#include "ring/net/addresses.hpp"
#include "ring/net/auth.hpp"
#include "ring/net/sockets.hpp"

namespace anello::launch {
namespace {

// For launchers that start one world together.
std::string shared_secret(const Job& job, const Settings& settings) {
  std::string secret = net::read_secret(settings);
  const std::string host = net::parse_host_port("--rendezvous", job.rendezvous).host;
  if (secret.empty() && host != "localhost" && !net::is_loopback(host))
    throw Error(
        ErrorCode::configuration,
        "--rendezvous on several hosts needs a secret: `anello secret FILE` makes one; copy it to all hosts and "
        "set ANELLO_SECRET_FILE");
  return secret;
}

// Where the rendezvous of a job listens.
ServerOptions server_place(const Job& job) {
  ServerOptions options;
  if (job.remote && !all_on_this_host(job)) options.listen_address = net::any_address();
  if (job.rendezvous.empty()) return options;
  const net::HostPort where = net::parse_host_port("--rendezvous", job.rendezvous);
  options.listen_address = job.secret.empty() || net::is_loopback(where.host) ? where.host : net::any_address();
  options.port = where.port;
  return options;
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
  if (job.dry_run) return std::cout << describe(job), 0;
  if (job.verbose) std::cerr << describe(job);
  set_log(rendezvous::log_severity(settings), "rendezvous");
  std::unique_ptr<RendezvousServer> server;
  RendezvousHooks hooks;
  hooks.open = [&](const Job& started) {
    ServerOptions options = server_place(started);
    if (!started.layout.front().has(0)) return options.port;  // another launcher has the server
    options.job = started.name;
    options.secret = started.secret;
    options.size = started.size;
    options.start_timeout = settings.start_timeout;
    // Agents reach it, where a firewall may allow only some ports.
    net::PortRange ports{options.port, options.port};
    if (started.remote) ports = net::parse_port_range(settings.port_range);
    net::at_first_free(ports, [&](std::uint16_t port) {
      options.port = port;
      server = std::make_unique<RendezvousServer>(options);
    });
    return server->port();
  };
  hooks.close = [&] { server.reset(); };
  hooks.abort = [&](int culprit, const std::string& reason) { return server && server->abort(culprit, reason); };
  hooks.exited = [&](int rank) {
    if (server) server->exited(rank);
  };
  hooks.newest_world = [&] { return server ? server->stats().newest : 0; };
  return launch::run(job, hooks, argv);
}

}  // namespace anello::launch
