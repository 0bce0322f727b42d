// The program `anello`: one subcommand a function.
#include <anello/error.hpp>
#include <anello/version.hpp>
#include <iostream>

#include "rendezvous/launch/command_line.hpp"
#include "rendezvous/launch/doctor.hpp"
#include "rendezvous/launch/options.hpp"
#include "rendezvous/launch/run.hpp"
#include "rendezvous/launch/secret.hpp"
#include "rendezvous/launch/serve.hpp"
#include "ring/base/config.hpp"
#include "ring/base/text.hpp"
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
  RendezvousHooks meeting;
  meeting.open = [&] {
    ServerOptions options;
    options.job = job.name;
    options.secret = job.secret;
    options.size = job.size;
    options.start_timeout = Settings::from_environment().start_timeout;
    server = std::make_unique<RendezvousServer>(options);
    return server->port();
  };
  meeting.abort = [&](int culprit, const std::string& reason) { return server->abort(culprit, reason); };
  return launch::run(job, meeting, argv);
}

int rendezvous_command(const Words& words, char**) {
  CLI::App app("Runs the server at which ranks meet, until it is interrupted.", "anello rendezvous");
  Settings settings = Settings::from_environment();
  ServerOptions options;
  std::string port = "0", size = "0";
  app.add_option("--port", port, "port to listen on; 0: any free one")->capture_default_str();
  app.add_option("--listen", options.listen_address, "address to listen on")->capture_default_str();
  app.add_option("--size", size, "number of ranks; 0: as the first to join says")->capture_default_str();
  app.add_option("--job", settings.job, "name of the job (ANELLO_JOB)")->capture_default_str();
  app.add_option("--secret-file", settings.secret_file, "file with the job's secret (ANELLO_SECRET_FILE)");
  app.add_option("--metrics", options.metrics, "HOST:PORT at which Prometheus finds counters");
  if (const auto exit_code = parse(app, words)) return *exit_code;
  options.port = std::uint16_t(parse_number("--port", port, 0, 65535));
  options.size = int(parse_number("--size", size, 0, 1048576));
  options.job = settings.job;
  options.secret = read_secret(settings);
  options.start_timeout = settings.start_timeout;
  serve(options);
  return 0;
}

int secret_command(const Words& words, char**) {
  CLI::App app("Makes a file with a new random secret, for ANELLO_SECRET_FILE.", "anello secret");
  std::string file;
  app.add_option("file", file, "must not exist yet")->required()->type_name("FILE");
  if (const auto exit_code = parse(app, words)) return *exit_code;
  make_secret_file(file);
  return 0;
}

int settings_command(const Words& words, char**) {
  CLI::App app("Lists the settings, which are environment variables.", "anello settings");
  bool markdown = false;
  app.add_flag("--markdown", markdown, "as a table in Markdown");
  if (const auto exit_code = parse(app, words)) return *exit_code;
  std::cout << settings_table(markdown);
  return 0;
}

int doctor_command(const Words& words, char**) {
  CLI::App app("Shows what the engine sees of this host and environment; exit code 1 if there are problems.",
               "anello doctor");
  if (const auto exit_code = parse(app, words)) return *exit_code;
  return examine(std::cout) == 0 ? 0 : 1;
}

struct Command {
  std::string_view name, sentence;
  int (*run)(const Words& words, char** argv);
};
constexpr Command kCommands[] = {
    {"run", "start a program on N ranks of this host", run_command},
    {"rendezvous", "run the server at which ranks meet, alone", rendezvous_command},
    {"secret", "make a file with a new secret", secret_command},
    {"settings", "list the settings", settings_command},
    {"doctor", "show what the engine sees of this host", doctor_command},
};

std::string usage() {
  std::string out = "Usage: anello COMMAND [options]\n\n";
  for (const Command& command : kCommands)
    out += text("  ", command.name, std::string(12 - command.name.size(), ' '), command.sentence, "\n");
  return out + "\n`anello COMMAND --help` says more; `anello --version` which version this is.\n";
}

int dispatch(int argc, char** argv) {
  const Words words(argv + std::min(argc, 1), argv + argc);
  const std::string name = words.empty() ? "" : words[0];
  if (name == "--help" || name == "-h" || name == "help") return std::cout << usage(), 0;
  if (name == "--version") return std::cout << "anello " << version() << "\n", 0;
  for (const Command& command : kCommands)
    if (command.name == name) return command.run({words.begin() + 1, words.end()}, argv);
  std::cerr << "anello: " << (name.empty() ? "no command" : text("'", name, "' is not a command"))
            << "; `anello --help` lists them\n";
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
