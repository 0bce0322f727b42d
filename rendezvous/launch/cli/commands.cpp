#include "rendezvous/launch/cli/commands.hpp"

#include <anello/error.hpp>
#include <anello/version.hpp>
#include <filesystem>
#include <iostream>

#include "rendezvous/join/home_secret.hpp"
#include "rendezvous/launch/agents/agent.hpp"
#include "rendezvous/launch/cli/command_line.hpp"
#include "rendezvous/launch/cli/command_page.hpp"
#include "rendezvous/launch/cli/job_commands.hpp"
#include "rendezvous/launch/cli/page_commands.hpp"
#include "rendezvous/launch/cli/rendezvous_command.hpp"
#include "rendezvous/launch/cli/run_command.hpp"
#include "rendezvous/launch/cli/secret.hpp"
#include "rendezvous/launch/doctor/doctor.hpp"
#include "rendezvous/launch/flight/flight.hpp"
#include "rendezvous/protocol/describe.hpp"
#include "rendezvous/uncaught.hpp"
#include "ring/base/config.hpp"
#include "ring/base/standard_descriptors.hpp"
#include "ring/base/text.hpp"

namespace anello::launch {
namespace {

// Makes the user's file with the secret, but only if the user has no secret yet, because scripts may begin with this
// call. Prints the file's path.
void make_home_secret() {
  const std::string path = rendezvous::home_secret_path();
  if (path.empty())
    throw Error(ErrorCode::configuration,
                "there is no home for the secret: set HOME, or name a file: anello secret FILE");
  if (rendezvous::read_any_secret({}).empty()) {
    make_private_folders(path);
    make_secret_file(path);
  }
  std::cout << path << "\n";
}

int secret_command(const Words& words, char**) {
  CLI::App app(
      "Makes a file with a new random secret. Copy it to all hosts and set ANELLO_SECRET_FILE to its path. Without "
      "FILE, makes it in your home (" +
          rendezvous::home_secret_path() + ") if it is not there: jobs find it without a setting.",
      "anello secret");
  std::string file;
  app.add_option("file", file, "the file to make; it must not exist")->type_name("FILE");
  if (const auto exit_code = parse(app, words)) return *exit_code;
  if (file.empty())
    make_home_secret();
  else
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
      "Reports facts about this host and its settings, and problems. The exit code is 1 if there are problems. On "
      "several ranks (anello run -n 4 -- anello doctor), it compares their hosts and measures the links between them.",
      "anello doctor");
  if (const auto exit_code = parse(app, words)) return *exit_code;
  return doctor(std::cout) == 0 ? 0 : 1;
}

int flight_command(const Words& words, char**) {
  CLI::App app(
      "Reads the flight recorder's files of all ranks, and says which rank did not come to which operation, which "
      "ranks wait for it, and what each rank did last.",
      "anello flight");
  const Settings settings = Settings::from_environment();
  std::string folder = settings.flight_dir.empty() || settings.flight_dir == "none"
                           ? std::filesystem::temp_directory_path().string()
                           : settings.flight_dir;
  std::string job;
  app.add_option("folder", folder, "the folder of the files (ANELLO_FLIGHT_DIR)")
      ->type_name("DIR")
      ->capture_default_str();
  app.add_option("--job", job, "the job's name; otherwise the newest file's job")->type_name("NAME");
  if (const auto exit_code = parse(app, words)) return *exit_code;
  std::vector<std::string> skipped;
  const std::vector<Flight> flights = read_flights(folder, job, skipped);
  for (const std::string& file : skipped) std::cerr << "anello: left out " << file << "\n";
  std::cout << explain(flights);
  return 0;
}

std::vector<CommandPage> pages();

struct Command {
  std::string_view name, summary;  // an empty summary: not for users
  int (*run)(const Words& words, char** argv);
};
constexpr Command kCommands[] = {
    {"run", "start N copies of a program, as the ranks of one job", run_command},
    {"rendezvous", "run the rendezvous server, for ranks that something else starts", rendezvous_command},
    {"status", "list the elastic jobs on this host, with their processes", status_command},
    {"resize", "change the number of processes of an elastic job", resize_command},
    {"remove", "ask a process of an elastic job, or those of a host, to leave", remove_command},
    {"secret", "make a file with a new secret, for jobs on several hosts", secret_command},
    {"settings", "list the settings (environment variables)", settings_command},
    {"flight", "read the flight recorder's files: which rank did not come to which operation", flight_command},
    {"doctor", "report facts and problems of this host and its settings", doctor_command},
    {"agent", "", agent_command},  // `anello run` starts it on other hosts
    {"manual", "print a manual page, for man -l -",
     [](const Words& words, char**) { return manual_command(words, pages); }},
    {"completion", "print a script that completes command lines in bash or zsh",
     [](const Words& words, char**) { return completion_command(words, pages); }},
    {"pages", "", [](const Words& words, char**) { return pages_command(words, pages); }},
};

CommandPage page_of(const Command& command) try {
  command.run({kDescribe}, nullptr);
  return {};
} catch (const Described& described) {
  return described.page;
}

std::vector<CommandPage> pages() {
  std::vector<CommandPage> out;
  for (const Command& command : kCommands)
    if (!command.summary.empty()) out.push_back(page_of(command));
  return out;
}

std::string usage() {
  std::string out =
      "Starts and connects the ranks of a job: the processes of a program that uses the library Anello.\n"
      "Usage: anello COMMAND [options]\n\n";
  for (const Command& command : kCommands)
    if (!command.summary.empty())
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

int run_program(int argc, char** argv) {
  rendezvous::handle_uncaught_exceptions();  // also for exceptions that are thrown in other threads
  try {
    const int exit_code = dispatch(argc, argv);
    require_output_written();
    return exit_code;
  } catch (const std::exception& thrown) {
    const Error error = rendezvous::as_error(thrown);
    std::cerr << "anello: " << error.what() << "\n";
    return error.code() == ErrorCode::configuration ? 2 : 1;
  }
}

}  // namespace anello::launch
