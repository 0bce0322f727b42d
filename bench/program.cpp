#include "bench/program.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <anello/error.hpp>
#include <anello/settings.hpp>
#include <functional>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "bench/benchmark.hpp"
#include "bench/busy.hpp"
#include "bench/idle.hpp"
#include "ring/base/standard_descriptors.hpp"
#include "ring/base/text.hpp"

namespace anello::bench {
namespace {

// Only one rank reports a wrong command line, because every rank has the same one.
bool reports() {
  return Settings::from_environment().rank <= 0;
}

int usage(const Program& program, const std::string& what) {
  if (reports()) std::cerr << text(program.name, ": ", what, "; see ", program.name, " --help\n");
  return 2;
}

// The flags and subcommands of a program. The subcommand on the command line decides which function parse_and_run()
// calls.
class CommandLine {
 public:
  explicit CommandLine(const Program& program) : program_(program), app_(program.sentence, program.name) {
    app_.require_subcommand(0, 1);
    app_.footer(text("Each subcommand has its own flags; write them after it: ", program.name,
                     " allreduce -b 8 -e 64M -f 2; see ", program.name, " allreduce --help\n\n",
                     "p50, p99 and mean: of the calls' times; a call's time is that of its slowest rank; bandwidths: "
                     "from p50. If ranks need not wait for each other (broadcast, reduce, gather, scatter), or share "
                     "cores, some calls are short and others long: only the mean then is the cost of a call."));
    if (program.add_flags) program.add_flags(app_);
    for (const Collective& collective : collectives()) add_collective(collective);
    add_beside_operations("busy", "how long ranks wait on busy cores: a step of small allreduces while threads compute",
                          busy_, add_busy_flags, run_busy);
    add_beside_operations("idle", "what a rank costs beside its operations: processor time, memory, context switches",
                          idle_, add_idle_flags, run_idle);
    for (const Command& command : program.alone) {
      CLI::App* subcommand = add(command.name, command.sentence);
      subcommand->parse_complete_callback([this, run = command.add(*subcommand)] { chosen_ = run; });
    }
  }

  int parse_and_run(int argc, char** argv) {
    const std::string first = text("write the operation first, then its flags: ", names());
    const bool begins_with_operation = argc > 1 && std::ranges::find(names_, argv[1]) != names_.end();
    try {
      app_.parse(argc, argv);
    } catch (const CLI::Success& help) {
      return reports() ? app_.exit(help) : 0;
    } catch (const CLI::ExtrasError&) {  // the text of this error has the words in reverse order
      std::string words;
      for (const std::string& word : app_.remaining(true)) words += text(words.empty() ? "" : " ", word);
      return usage(program_, text("not expected: ", words, begins_with_operation ? "" : text("; ", first)));
    } catch (const CLI::ParseError& error) {
      return usage(program_, error.what());
    } catch (const Error& error) {
      return usage(program_, error.what());
    }
    return chosen_ ? chosen_() : usage(program_, first);
  }

 private:
  CLI::App* add(std::string_view name, std::string_view sentence) {
    names_.emplace_back(name);
    return app_.add_subcommand(std::string(name), std::string(sentence));
  }

  // Adds a subcommand that the ranks of the program run together.
  void add_for_ranks(CLI::App& subcommand, std::function<int(Library&)> run) {
    subcommand.fallthrough();  // so that the library's flags may follow the subcommand
    subcommand.parse_complete_callback(
        [this, run = std::move(run)] { chosen_ = [this, run] { return program_.join(run); }; });
  }

  void add_collective(const Collective& collective) {
    CLI::App* const subcommand = add(collective.name, collective.sentence);
    add_flags(*subcommand, options_);
    add_for_ranks(*subcommand, [this, &collective](Library& library) {
      return run_benchmark(library, collective, options_, std::cout);
    });
  }

  template <class Request>
  void add_beside_operations(std::string_view name, std::string_view sentence, Request& request,
                             void (*add_its_flags)(CLI::App&, Request&),
                             int (*run)(Library&, const Request&, std::ostream&)) {
    CLI::App* const subcommand = add(name, sentence);
    add_its_flags(*subcommand, request);
    add_for_ranks(*subcommand, [&request, run](Library& library) { return run(library, request, std::cout); });
  }

  std::string names() const {
    std::string out;
    for (const std::string& name : names_) out += text(out.empty() ? "" : ", ", name);
    return out;
  }

  const Program& program_;
  CLI::App app_;
  Options options_;
  BusyRequest busy_;
  IdleRequest idle_;
  std::vector<std::string> names_;
  std::function<int()> chosen_;
};

}  // namespace

int run_program(const Program& program, int argc, char** argv) {
  try {
    const int exit_code = CommandLine(program).parse_and_run(argc, argv);
    require_output_written();
    return exit_code;
  } catch (const std::exception& error) {
    std::cerr << text(program.name, ": ", error.what(), "\n");
    return 1;
  }
}

}  // namespace anello::bench
