// The results of simulations (Cell: all algorithms for one number of ranks and one size) and of planning, as text and
// as JSON. Pure.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>

#include "bench/simulate/planning.hpp"
#include "bench/simulate/sweep.hpp"

namespace anello::bench {

std::string cells_headline();
std::string lines_of(const Cell& cell);  // one line for each algorithm
// Lists the cases where choose() does not choose the fastest algorithm.
std::string verdict(std::span<const Cell> cells);
nlohmann::ordered_json to_json(std::span<const Cell> cells);  // one row for each algorithm

struct PlanningRow {
  Job job;
  bool chosen = false;
  Planning planning;
};
std::string planning_headline();
std::string line_of(const PlanningRow& row);
nlohmann::ordered_json to_json(std::span<const PlanningRow> rows);

}  // namespace anello::bench
