#include <CLI/CLI.hpp>
#include <anello/error.hpp>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "bench/commands.hpp"
#include "bench/json_file.hpp"
#include "bench/machine.hpp"
#include "bench/options.hpp"
#include "bench/simulate/calibrate.hpp"
#include "bench/simulate/table.hpp"
#include "ring/base/config.hpp"
#include "ring/base/text.hpp"

namespace anello::bench {
namespace {

constexpr long kMaxRanks = 1 << 20, kMaxMessages = 1'000'000'000;

struct Request {
  Kind kind = Kind::allreduce;
  Cluster cluster;
  Limits limits;
  std::vector<int> worlds;
  std::vector<std::uint64_t> sizes;
  std::int64_t slab_bytes = algorithms::kSuitableSlab;
  bool calibrates = false, plans_only = false;
  std::string json;
};

// Parses a list such as "2,4,12", or a range: "2-16384" is 2, its doubles (4, 8, ...), and 16384.
std::vector<int> parse_worlds(const std::string& given) {
  const auto number = [](const std::string& digits) { return int(parse_number("-n", digits, 2, kMaxRanks)); };
  std::vector<int> worlds;
  std::istringstream list(given);
  for (std::string part; std::getline(list, part, ',');) {
    const std::size_t dash = part.find('-');
    const int first = number(part.substr(0, dash));
    const int last = dash == std::string::npos ? first : number(part.substr(dash + 1));
    for (long world = first; world <= last; world *= 2) worlds.push_back(int(world));
  }
  if (worlds.empty())
    throw Error(ErrorCode::configuration,
                text("-n '", given, "' is not a list of numbers of ranks, such as 2,4,12 or 2-16384"));
  return worlds;
}

Kind parse_collective(const std::string& given) {
  std::string names;
  for (const Kind kind : kAllKinds) {
    if (kind == Kind::barrier || kind == Kind::transfer) continue;
    if (name(kind) == given) return kind;
    names += text(names.empty() ? "" : ", ", name(kind));
  }
  throw Error(ErrorCode::configuration, text("--collective '", given, "' is not one of ", names));
}

void add_flags(CLI::App& command, Request& request) {
  command
      .add_option_function<std::string>(
          "--collective", [&](const std::string& given) { request.kind = parse_collective(given); },
          "allgather, broadcast, ... (allreduce)")
      ->type_name("NAME");
  command
      .add_option_function<std::string>(
          "-n,--ranks", [&](const std::string& given) { request.worlds = parse_worlds(given); },
          "numbers of ranks: 2,4,12; or 2-16384: 2, 4, 8, ... (2-16384)")
      ->type_name("LIST");
  add_size_flags(command, request.sizes);
  add_flags(command, request.cluster);
  command
      .add_option_function<std::string>(
          "--slab", [&](const std::string& given) { request.slab_bytes = std::int64_t(parse_size("--slab", given)); },
          "as ANELLO_SLAB_BYTES")
      ->type_name("SIZE");
  command
      .add_option_function<std::string>(
          "--literal",
          [&](const std::string& given) {
            request.limits.literal_world = int(parse_number("--literal", given, 0, kMaxRanks));
          },
          "up to this number of ranks, simulate every rank; above it, one host if all hosts do the same (128)")
      ->type_name("N");
  command
      .add_option_function<std::string>(
          "--messages",
          [&](const std::string& given) {
            request.limits.messages = double(parse_number("--messages", given, 1, kMaxMessages));
          },
          "number of messages to simulate; of a longer buffer only the first part is simulated (400000)")
      ->type_name("N");
  command.add_flag("--calibrate", request.calibrates,
                   "first measure this machine: its cores, and messages within a host; not the network");
  command.add_flag("--planning", request.plans_only, "show the cost of planning for one rank instead");
  command.add_option("-J,--json", request.json, "also write the results to this file")->type_name("FILE");
}

template <class Use>
void each_case(const Request& request, Use use) {
  for (const int world : request.worlds) {
    algorithms::Facts facts = facts_of(request.cluster, world, request.slab_bytes);
    for (const std::uint64_t size : request.sizes) {
      const std::uint64_t bytes = bytes_simulated(request.kind, world, size);
      if (bytes == facts.bytes) continue;  // in a large world, two small sizes may be the same after rounding
      facts.bytes = bytes;
      use(facts);
    }
  }
}

nlohmann::ordered_json plan_all(const Request& request) {
  std::cout << planning_headline();
  std::vector<PlanningRow> rows;
  each_case(request, [&](const algorithms::Facts& facts) {
    for (const Algorithm algorithm : algorithms_for(request.kind, facts)) {
      const Job job = job_of(request.cluster, request.kind, facts, algorithm);
      rows.push_back({job, choose(request.kind, facts).algorithm == algorithm, measure_planning(job)});
      std::cout << line_of(rows.back()) << std::flush;
    }
  });
  return to_json(rows);
}

nlohmann::ordered_json simulate_all(const Request& request) {
  std::cout << cells_headline();
  std::vector<Cell> cells;
  each_case(request, [&](const algorithms::Facts& facts) {
    cells.push_back(simulate_cell(request.cluster, request.kind, facts, request.limits));
    std::cout << lines_of(cells.back()) << std::flush;
  });
  std::cout << verdict(cells);
  return to_json(cells);
}

int run_command(Request& request) {
  JsonFile file(request.json);
  nlohmann::ordered_json config;
  if (request.calibrates) {
    calibrate(request.cluster);
    config["machine"] = machine();
  }
  config["cluster"] = to_json(request.cluster);
  config["collective"] = name(request.kind);
  config["slab_bytes"] = request.slab_bytes;
  std::cout << "# " << flags_of(request.cluster) << "\n";
  nlohmann::ordered_json results = request.plans_only ? plan_all(request) : simulate_all(request);
  file.write({{"config", std::move(config)}, {"results", std::move(results)}});
  return 0;
}

}  // namespace

Command simulate_command() {
  return {"simulate", "predicts times of a collective: simulates its real plans on machines that the flags describe",
          [](CLI::App& command) -> std::function<int()> {
            const auto request = std::make_shared<Request>();
            request->worlds = parse_worlds("2-16384");
            add_flags(command, *request);
            return [request] { return run_command(*request); };
          }};
}

}  // namespace anello::bench
