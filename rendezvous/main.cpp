// The program `anello`: one function for each subcommand.
#include <poll.h>
#include <unistd.h>

#include <anello/error.hpp>
#include <anello/version.hpp>
#include <csignal>
#include <iostream>

#include "rendezvous/launch/command_line.hpp"
#include "rendezvous/launch/descriptor.hpp"
#include "rendezvous/launch/doctor.hpp"
#include "rendezvous/launch/options.hpp"
#include "rendezvous/launch/run.hpp"
#include "rendezvous/launch/secret.hpp"
#include "rendezvous/launch/signals.hpp"
#include "rendezvous/server.hpp"
#include "ring/base/config.hpp"
#include "ring/base/text.hpp"
#include "ring/net/addresses.hpp"
#include "ring/net/auth.hpp"

namespace {

using namespace anello;
using namespace anello::launch;

int run_command(const Words& words, char** argv) {
  Job job;
  if (const auto exit_code = parse_run(words, job)) return *exit_code;
  job.name = make_name();
  job.secret = make_secret();
  std::unique_ptr<RendezvousServer> server;
  RendezvousHooks hooks;
  hooks.open = [&] {
    ServerOptions options;
    options.job = job.name;
    options.secret = job.secret;
    options.size = job.size;
    options.start_timeout = Settings::from_environment().start_timeout;
    server = std::make_unique<RendezvousServer>(options);
    return server->port();
  };
  hooks.abort = [&](int culprit, const std::string& reason) { return server->abort(culprit, reason); };
  return launch::run(job, hooks, argv);
}

// Prints "ANELLO_RENDEZVOUS=address:port" and serves until SIGINT, SIGTERM or SIGHUP. Each rank takes a descriptor, and
// more ranks may come than the usual soft limit allows.
void serve(const ServerOptions& options) {
  open_missing_standard_descriptors();
  set_open_files_limit(open_files_limit().max);
  Signals signals({SIGINT, SIGTERM, SIGHUP});  // before the server's thread, which inherits the blocked signals
  const RendezvousServer server(options);
  write_all(STDOUT_FILENO, "ANELLO_RENDEZVOUS=" + net::host_port(options.listen_address, server.port()) + "\n",
            "standard output");
  while (!signals.next()) {
    pollfd entry{signals.fd(), POLLIN, 0};
    poll(&entry, 1, -1);
  }
}

int rendezvous_command(const Words& words, char**) {
  CLI::App app("Runs the rendezvous server, which brings the ranks of a job together, until it is interrupted.",
               "anello rendezvous");
  Settings settings = Settings::from_environment();
  ServerOptions options;
  std::string port = "0", size = "0";
  app.add_option("--port", port, "port to listen on; 0: any free port")->type_name("PORT")->capture_default_str();
  app.add_option("--listen", options.listen_address, "numeric address to listen on")
      ->type_name("ADDRESS")
      ->capture_default_str();
  app.add_option("--size", size, "number of ranks; 0: the first rank to join decides")
      ->type_name("N")
      ->capture_default_str();
  app.add_option("--job", settings.job, "name of the job (ANELLO_JOB)")->type_name("NAME")->capture_default_str();
  app.add_option("--secret-file", settings.secret_file, "file with the job's secret (ANELLO_SECRET_FILE)")
      ->type_name("FILE");
  app.add_option("--metrics", options.metrics, "address at which counters are served to Prometheus")
      ->type_name("HOST:PORT");
  if (const auto exit_code = parse(app, words)) return *exit_code;
  options.port = std::uint16_t(parse_number("--port", port, 0, 65535));
  options.size = int(parse_number("--size", size, 0, 1048576));
  options.job = settings.job;
  options.secret = net::read_secret(settings);
  options.start_timeout = settings.start_timeout;
  serve(options);
  return 0;
}

int secret_command(const Words& words, char**) {
  CLI::App app("Makes a file with a new random secret. Copy it to all hosts and set ANELLO_SECRET_FILE to its path.",
               "anello secret");
  std::string file;
  app.add_option("file", file, "the file to make; it must not exist")->required()->type_name("FILE");
  if (const auto exit_code = parse(app, words)) return *exit_code;
  make_secret_file(file);
  return 0;
}

int settings_command(const Words& words, char**) {
  CLI::App app("Lists the settings of ranks. Settings are environment variables.", "anello settings");
  bool markdown = false;
  app.add_flag("--markdown", markdown, "print a Markdown table");
  if (const auto exit_code = parse(app, words)) return *exit_code;
  std::cout << settings_table(markdown);
  return 0;
}

int doctor_command(const Words& words, char**) {
  CLI::App app(
      "Reports facts about this host and its settings, and problems. The exit code is 1 if there are problems.",
      "anello doctor");
  if (const auto exit_code = parse(app, words)) return *exit_code;
  return examine(std::cout) == 0 ? 0 : 1;
}

struct Command {
  std::string_view name, summary;
  int (*run)(const Words& words, char** argv);
};
constexpr Command kCommands[] = {
    {"run", "start N copies of a program on this host, as the ranks of one job", run_command},
    {"rendezvous", "run the rendezvous server, for ranks that something else starts", rendezvous_command},
    {"secret", "make a file with a new secret, for jobs on several hosts", secret_command},
    {"settings", "list the settings (environment variables)", settings_command},
    {"doctor", "report facts and problems of this host and its settings", doctor_command},
};

std::string usage() {
  std::string out =
      "Starts and connects the ranks of a job: the processes of a program that uses the library Anello.\n"
      "Usage: anello COMMAND [options]\n\n";
  for (const Command& command : kCommands)
    out += text("  ", command.name, std::string(12 - command.name.size(), ' '), command.summary, "\n");
  return out + "\n`anello COMMAND --help` lists the options of a command. `anello --version` prints the version.\n";
}

int dispatch(int argc, char** argv) {
  const Words words(argv + std::min(argc, 1), argv + argc);
  const std::string name = words.empty() ? "" : words[0];
  if (name == "--help" || name == "-h" || name == "help") return std::cout << usage(), 0;
  if (name == "--version") return std::cout << "anello " << version() << "\n", 0;
  for (const Command& command : kCommands)
    if (command.name == name) return command.run({words.begin() + 1, words.end()}, argv);
  std::cerr << "anello: " << (name.empty() ? "no command is given" : text("'", name, "' is not a command"))
            << "; `anello --help` lists all commands\n";
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return dispatch(argc, argv);
  } catch (const Error& error) {
    std::cerr << "anello: " << error.what() << "\n";
    return error.code() == ErrorCode::configuration ? 2 : 1;
  } catch (const std::exception& error) {
    std::cerr << "anello: " << error.what() << "\n";
    return 1;
  }
}
