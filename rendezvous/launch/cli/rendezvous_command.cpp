#include "rendezvous/launch/cli/rendezvous_command.hpp"

#include <poll.h>
#include <unistd.h>

#include <anello/error.hpp>
#include <chrono>
#include <csignal>
#include <optional>
#include <thread>

#include "rendezvous/check_settings.hpp"
#include "rendezvous/join/home_secret.hpp"
#include "rendezvous/launch/base/descriptor.hpp"
#include "rendezvous/launch/base/signals.hpp"
#include "rendezvous/server/server.hpp"
#include "ring/base/config.hpp"
#include "ring/base/log.hpp"
#include "ring/base/standard_descriptors.hpp"
#include "ring/net/addresses.hpp"

namespace anello::launch {
namespace {

constexpr std::chrono::milliseconds kBetweenLooks{50};   // between checks whether one world has formed (--once)
constexpr std::chrono::milliseconds kLastMessages{500};  // time for ranks to read why their start has failed

// True if one world has formed. If its start has failed, throws the reason.
bool formed_one(const ServerStats& stats) {
  if (stats.worlds_formed > 0) return true;
  if (stats.last_failure.empty()) return false;
  std::this_thread::sleep_for(kLastMessages);
  throw Error(ErrorCode::rendezvous, stats.last_failure);
}

// Prints "ANELLO_RENDEZVOUS=address:port" and serves until a signal ends it; with `once`, until one world has
// formed.
void serve(const ServerOptions& options, bool once) {
  open_missing_standard_descriptors();
  set_open_files_limit(open_files_limit().max);  // the server needs a descriptor for each rank
  // Blocks signals before the server's thread starts, because that thread must inherit the blocked signals.
  Signals signals(ending_signals_and({}));
  const RendezvousServer server(options);
  write_all(STDOUT_FILENO, "ANELLO_RENDEZVOUS=" + net::host_port(server.address(), server.port()) + "\n",
            "standard output");
  while (!signals.next() && !(once && formed_one(server.stats()))) {
    pollfd entry{signals.fd(), POLLIN, 0};
    poll(&entry, 1, once ? int(kBetweenLooks.count()) : -1);
  }
}

std::optional<ElasticLimits> elastic_limits(const std::string& min_np, const std::string& max_np, const std::string& np,
                                            std::chrono::milliseconds silence) {
  if (min_np.empty() && (!max_np.empty() || !np.empty()))
    throw Error(ErrorCode::configuration, "--max-np and --np are for elastic jobs; give --min-np too");
  if (min_np.empty()) return {};
  ElasticLimits limits;
  limits.min = int(parse_number("--min-np", min_np, 1, limits.max));
  if (!max_np.empty()) limits.max = int(parse_number("--max-np", max_np, limits.min, limits.max));
  limits.first = limits.min;
  if (!np.empty()) limits.first = int(parse_number("--np", np, limits.min, limits.max));
  if (silence.count() > 0) limits.silence = silence;
  return limits;
}

}  // namespace

int rendezvous_command(const Words& words, char**) {
  CLI::App app("Runs the rendezvous server, which brings the ranks of a job together, until it is interrupted.",
               "anello rendezvous");
  Settings settings = Settings::from_environment();
  ServerOptions options;
  std::string port = "0", size = "0", min_np, max_np, np;
  app.add_option("--port", port, "port to listen on; 0: any free port")->type_name("PORT")->capture_default_str();
  app.add_option("--listen", options.listen_address, "address or name of this host to listen on")
      ->type_name("ADDRESS")
      ->capture_default_str();
  app.add_option("--size", size, "number of ranks; 0: the first rank to join decides")
      ->type_name("N")
      ->capture_default_str();
  app.add_option("--min-np", min_np,
                 "makes the job elastic: ranks may end and others join; the smallest number of ranks that go on")
      ->type_name("N");
  app.add_option("--max-np", max_np, "the largest number of ranks of an elastic job")->type_name("N");
  app.add_option("-n,--np", np, "ranks for which the first world of an elastic job waits; by default --min-np")
      ->type_name("N");
  app.add_option("--job", settings.job, "name of the job (ANELLO_JOB)")->type_name("NAME")->capture_default_str();
  app.add_option("--secret-file", settings.secret_file, "file with the job's secret (ANELLO_SECRET_FILE)")
      ->type_name("FILE");
  app.add_option("--metrics", options.metrics, "address at which counters are served to Prometheus")
      ->type_name("HOST:PORT");
  bool successor = false, once = false;
  app.add_flag("--successor", successor,
               "if this server of an elastic job ends, a rank goes on in its place; see docs/elastic.md");
  app.add_flag("--once", once, "end when one world has formed; if its start fails, with exit code 1");
  if (const auto exit_code = parse(app, words)) return *exit_code;
  set_log(rendezvous::log_severity(settings), "rendezvous");
  options.port = std::uint16_t(parse_number("--port", port, 0, 65535));
  options.size = int(parse_number("--size", size, 0, 1048576));
  options.elastic = elastic_limits(min_np, max_np, np, settings.silence_limit);
  if (options.elastic && (once || options.size > 0))
    throw Error(ErrorCode::configuration, "--size and --once are for jobs of a fixed size; leave them out or --min-np");
  if (successor && !options.elastic)
    throw Error(ErrorCode::configuration, "--successor is for elastic jobs; give --min-np too");
  if (successor) options.elastic->may_be_succeeded = true;
  options.job = settings.job;
  options.secret = rendezvous::read_server_secret(settings, options.listen_address);
  options.start_timeout = settings.start_timeout;
  serve(options, once);
  return 0;
}

}  // namespace anello::launch
