#include "bench/program.hpp"

#include <CLI/CLI.hpp>
#include <anello/error.hpp>
#include <anello/settings.hpp>
#include <iostream>

#include "bench/benchmark.hpp"
#include "ring/base/text.hpp"

namespace anello::bench {
namespace {

// Every rank has the same command line, so only one reports what is wrong with it.
bool reports() {
  return Settings::from_environment().rank <= 0;
}

int usage(const Program& program, const std::string& what) {
  if (reports()) std::cerr << text(program.name, ": ", what, "; see ", program.name, " --help\n");
  return 2;
}

int parse_and_run(const Program& program, int argc, char** argv) {
  CLI::App app(program.sentence, program.name);
  app.require_subcommand(0, 1);
  app.footer(
      text("Each has flags of its own, written after it: ", program.name, " allreduce -b 8 -e 64M -f 2; see ",
           program.name, " allreduce --help\n\n",
           "p50, p99 and mean are of the times of single calls, each that of the slowest rank; the bandwidths are "
           "from p50. Where ranks need not wait for each other (broadcast, reduce, gather, scatter), or share "
           "cores, calls are of two kinds, and only the mean says what one costs."));
  if (program.add_flags) program.add_flags(app);
  Options options;
  std::function<int()> chosen;
  std::string names;
  bool begins_with_operation = false;
  const auto add = [&](const auto& each) {
    names += text(names.empty() ? "" : ", ", each.name);
    begins_with_operation |= argc > 1 && each.name == argv[1];
    return app.add_subcommand(std::string(each.name), std::string(each.sentence));
  };
  for (const Collective& collective : collectives()) {
    CLI::App* subcommand = add(collective);
    subcommand->parse_complete_callback([&chosen, &program, &collective, &options] {
      chosen = [&program, &collective, &options] {
        return program.join([&](Library& library) { return run_benchmark(library, collective, options, std::cout); });
      };
    });
    subcommand->fallthrough();  // to the flags of the library
    add_flags(*subcommand, options);
  }
  for (const Command& command : program.alone) {
    CLI::App* subcommand = add(command);
    subcommand->parse_complete_callback([&chosen, run = command.add(*subcommand)] { chosen = run; });
  }
  const std::string first = text("write the operation first, then its flags: ", names);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& help) {
    return reports() ? app.exit(help) : 0;
  } catch (const CLI::ExtrasError&) {  // its text has the words backwards
    std::string words;
    for (const std::string& word : app.remaining(true)) words += text(words.empty() ? "" : " ", word);
    return usage(program, text("not expected: ", words, begins_with_operation ? "" : text("; ", first)));
  } catch (const CLI::ParseError& error) {
    return usage(program, error.what());
  } catch (const Error& error) {
    return usage(program, error.what());
  }
  if (!chosen) return usage(program, first);
  return chosen();
}

}  // namespace

int run_program(const Program& program, int argc, char** argv) {
  try {
    return parse_and_run(program, argc, argv);
  } catch (const std::exception& error) {
    std::cerr << text(program.name, ": ", error.what(), "\n");
    return 1;
  }
}

}  // namespace anello::bench
