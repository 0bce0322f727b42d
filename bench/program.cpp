#include "bench/program.hpp"

#include <CLI/CLI.hpp>
#include <anello/error.hpp>
#include <anello/settings.hpp>
#include <iostream>

#include "bench/benchmark.hpp"
#include "ring/base/text.hpp"

namespace anello::bench {
namespace {

// Every rank has the same command line: one of them says what is wrong with it.
bool speaks() {
  return Settings::from_environment().rank <= 0;
}

int usage(const Program& program, const std::string& what) {
  if (speaks()) std::cerr << text(program.name, ": ", what, "; see ", program.name, " --help\n");
  return 2;
}

int parse_and_run(const Program& program, int argc, char** argv) {
  CLI::App app(program.sentence, program.name);
  app.require_subcommand(0, 1);
  if (program.add_flags) program.add_flags(app);
  Options options;
  const Collective* chosen = nullptr;
  std::string names;
  for (const Collective& collective : collectives()) {
    CLI::App* command = app.add_subcommand(std::string(collective.name), std::string(collective.sentence));
    command->parse_complete_callback([&chosen, &collective] { chosen = &collective; });
    add_flags(*command, options);
    names += text(names.empty() ? "" : ", ", collective.name);
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& help) {
    return speaks() ? app.exit(help) : 0;
  } catch (const CLI::ParseError& error) {
    return usage(program, error.what());
  } catch (const Error& error) {
    return usage(program, error.what());
  }
  if (!chosen) return usage(program, text("name an operation: ", names));
  return program.join([&](Library& library) { return run_benchmark(library, *chosen, options, std::cout); });
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
