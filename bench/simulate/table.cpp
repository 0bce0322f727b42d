#include "bench/simulate/table.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "bench/report.hpp"
#include "ring/base/text.hpp"

namespace anello::bench {
namespace {

constexpr int kNameWidth = 25;    // length of the longest name
constexpr double kMaxLoss = 1.1;  // a larger loss() is reported

std::string percent(double share) {
  return text(std::lround(share * 100), "%");
}

std::string_view words_for(Symmetry symmetry) {
  return symmetry == Symmetry::every_rank ? "every rank" : "one host for all";
}

std::string how(const Cell& cell, const Prediction& prediction) {
  if (!prediction.simulated()) return "not simulated; lower bound from its work alone";
  std::string words(words_for(prediction.symmetry));
  if (prediction.simulated_elems < cell.count)
    words += text(", from ", prediction.simulated_elems * kElemBytes, " bytes on");
  return words;
}

// One host has no network, so no aim (network_aim_us()).
std::string aim(const Cell& cell) {
  return cell.hosts == 1 ? "-" : digits(cell.aim_us);
}
std::string to_aim(const Cell& cell, const SimulationResult& result) {
  return cell.hosts == 1 ? "-" : digits(result.us / cell.aim_us);
}

std::string line_of(const Cell& cell, const Cell::Row& row) {
  const SimulationResult& result = row.prediction.result;
  const bool chosen = row.algorithm == cell.choice.algorithm;
  std::string line = text(" ", columns(std::pair(cell.world, 7), std::pair(cell.bytes(), 12)), chosen ? " *" : "  ",
                          std::left, std::setw(kNameWidth), name(row.algorithm),
                          columns(std::pair(digits(result.us), 11), std::pair(digits(cell.bound_us), 11),
                                  std::pair(digits(result.us / cell.bound_us), 8), std::pair(aim(cell), 12),
                                  std::pair(to_aim(cell, result), 8), std::pair(percent(result.core_share), 7),
                                  std::pair(percent(result.nic_share), 6)),
                          "  ", how(cell, row.prediction));
  if (chosen) line += text("; taken: ", cell.choice.reason);
  if (chosen && !cell.choice.measured.empty()) line += text(" (", cell.choice.measured, ")");
  return line + "\n";
}

}  // namespace

std::string cells_headline() {
  return text(
      "# * is the choice of choose(); cores and nic: how busy those of the busiest host are; network: one latency\n"
      "# for each doubling of hosts, and then what must leave or enter a host\n",
      "#", columns(std::pair("ranks", 7), std::pair("size", 12)), "  ", std::left, std::setw(kNameWidth), "algorithm",
      columns(std::pair("time(us)", 11), std::pair("bound(us)", 11), std::pair("ratio", 8),
              std::pair("network(us)", 12), std::pair("ratio", 8), std::pair("cores", 7), std::pair("nic", 6)),
      "  simulated\n");
}

std::string lines_of(const Cell& cell) {
  std::string lines;
  for (const Cell::Row& row : cell.rows) lines += line_of(cell, row);
  return lines;
}

std::string verdict(std::span<const Cell> cells) {
  std::string lines;
  for (const Cell& cell : cells) {
    if (cell.loss() <= kMaxLoss) continue;
    lines +=
        text("# ", cell.world, " ranks, ", cell.bytes(), " bytes: ", name(cell.fastest().algorithm), " is ",
             digits(cell.loss()), " times as fast as ", name(cell.choice.algorithm), " (", cell.choice.reason, ")\n");
  }
  if (lines.empty()) return text("# choose() takes the fastest everywhere, or loses less than 10 %\n");
  return text("# choose() loses more than 10 % here:\n", lines);
}

nlohmann::ordered_json to_json(std::span<const Cell> cells) {
  auto rows = nlohmann::ordered_json::array();
  for (const Cell& cell : cells)
    for (const Cell::Row& row : cell.rows) {
      const Prediction& prediction = row.prediction;
      const bool chosen = row.algorithm == cell.choice.algorithm;
      rows.push_back({{"world", cell.world},
                      {"hosts", cell.hosts},
                      {"size", cell.bytes()},
                      {"count", cell.count},
                      {"algorithm", name(row.algorithm)},
                      {"slab_elems", row.slab_elems},
                      {"time_us", prediction.result.us},
                      {"bound_us", cell.bound_us},
                      {"ratio", prediction.result.us / cell.bound_us},
                      {"network_us", cell.aim_us},
                      {"core_share", prediction.result.core_share},
                      {"nic_share", prediction.result.nic_share},
                      {"chosen", chosen},
                      {"reason", chosen ? cell.choice.reason : ""},
                      {"symmetry", words_for(prediction.symmetry)},
                      {"at_least", !prediction.simulated()},
                      {"simulated_size", prediction.simulated_elems * kElemBytes}});
    }
  return rows;
}

std::string planning_headline() {
  return text("# cost of planning for one rank (the slowest and largest of the first, middle and last)\n", "#",
              columns(std::pair("ranks", 7), std::pair("size", 12)), "  ", std::left, std::setw(kNameWidth),
              "algorithm",
              columns(std::pair("plan(ms)", 11), std::pair("steps", 10), std::pair("plan(KiB)", 11),
                      std::pair("scratch(KiB)", 13)),
              "\n");
}

std::string line_of(const PlanningRow& row) {
  const Planning& planning = row.planning;
  return text(
      " ", columns(std::pair(row.job.world, 7), std::pair(row.job.count * kElemBytes, 12)), row.chosen ? " *" : "  ",
      std::left, std::setw(kNameWidth), name(row.job.algorithm),
      columns(std::pair(digits(planning.ms), 11), std::pair(planning.steps, 10),
              std::pair(planning.plan_bytes >> 10, 11), std::pair(planning.scratch_elems * kElemBytes >> 10, 13)),
      "\n");
}

nlohmann::ordered_json to_json(std::span<const PlanningRow> rows) {
  auto all = nlohmann::ordered_json::array();
  for (const PlanningRow& row : rows)
    all.push_back({{"world", row.job.world},
                   {"size", row.job.count * kElemBytes},
                   {"algorithm", name(row.job.algorithm)},
                   {"chosen", row.chosen},
                   {"plan_ms", row.planning.ms},
                   {"steps", row.planning.steps},
                   {"plan_bytes", row.planning.plan_bytes},
                   {"scratch_bytes", row.planning.scratch_elems * kElemBytes}});
  return all;
}

}  // namespace anello::bench
