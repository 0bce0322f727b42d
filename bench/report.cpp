#include "bench/report.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <iomanip>
#include <sstream>

#include "bench/options.hpp"
#include "ring/base/text.hpp"

namespace anello::bench {
namespace {

constexpr std::array kWidths = {10, 8, 8, 7, 10, 10};

std::string_view name_of(std::optional<Op> op) {
  return op ? short_name(*op) : "none";
}

std::string columns_of(const std::optional<Figures>& measured) {
  if (!measured) {
    std::string none;
    for (const int width : kWidths) none += columns(std::pair("N/A", width));
    return none;
  }
  const Figures& figures = *measured;
  const Timing& t = figures.timing;
  return columns(std::pair(digits(t.p50_us), 10), std::pair(digits(figures.alg_bw), 8),
                 std::pair(digits(figures.bus_bw), 8),
                 std::pair(figures.wrong ? std::to_string(*figures.wrong) : "N/A", 7), std::pair(digits(t.p99_us), 10),
                 std::pair(digits(t.mean_us), 10));
}

nlohmann::ordered_json to_json(const std::optional<Figures>& measured) {
  if (!measured) return nullptr;
  const Figures& figures = *measured;
  const Timing& t = figures.timing;
  nlohmann::ordered_json wrong = nullptr;
  if (figures.wrong) wrong = *figures.wrong;
  return {{"p50_us", t.p50_us},       {"p99_us", t.p99_us},       {"mean_us", t.mean_us},
          {"alg_bw", figures.alg_bw}, {"bus_bw", figures.bus_bw}, {"nwrong", wrong}};
}

}  // namespace

std::string digits(double value) {
  std::ostringstream out;
  out << std::fixed << std::setprecision(value < 10 ? 2 : value < 1000 ? 1 : 0) << value;
  return out.str();
}

std::string headline() {
  const std::string names = columns(std::pair("p50", 10), std::pair("algbw", 8), std::pair("busbw", 8),
                                    std::pair("#wrong", 7), std::pair("p99", 10), std::pair("mean", 10));
  const std::string units = columns(std::pair("(us)", 10), std::pair("(GB/s)", 8), std::pair("(GB/s)", 8),
                                    std::pair("", 7), std::pair("(us)", 10), std::pair("(us)", 10));
  const auto left = [](auto size, auto count, auto type, auto redop) {
    return text("#", columns(std::pair(size, 12), std::pair(count, 12), std::pair(type, 9), std::pair(redop, 6)));
  };
  return text(left("", "", "", ""), std::setw(int(names.size())), "out of place", std::setw(int(names.size())),
              "in place", "\n", left("size", "count", "type", "redop"), names, names, "\n",
              left("(B)", "(elements)", "", ""), units, units, "\n");
}

std::string line(const Result& result) {
  return text(" ",
              columns(std::pair(result.size_bytes, 12), std::pair(result.count, 12),
                      std::pair(short_name(result.dtype), 9), std::pair(name_of(result.op), 6)),
              columns_of(result.out_of_place), columns_of(result.in_place), "\n");
}

std::string loopback_line(const Result& result) {
  const auto sent = [](const std::optional<Figures>& figures) {
    return figures ? std::to_string(std::llround(figures->sent_bytes)) : "N/A";
  };
  return text("# loopback: ", sent(result.out_of_place), " ", sent(result.in_place), " bytes a call\n");
}

std::uint64_t wrong(std::span<const Result> results) {
  std::uint64_t sum = 0;
  for (const Result& result : results)
    for (const auto& figures : {result.out_of_place, result.in_place})
      if (figures) sum += figures->wrong.value_or(0);
  return sum;
}

std::string last_line(std::span<const Result> results) {
  double bus_bw = 0;
  int measured = 0;
  bool checked = false;
  for (const Result& result : results)
    for (const auto& figures : {result.out_of_place, result.in_place}) {
      if (!figures) continue;
      bus_bw += figures->bus_bw;
      measured++;
      checked |= figures->wrong.has_value();
    }
  bus_bw /= std::max(measured, 1);
  const std::uint64_t bad = wrong(results);
  return text("# wrong values: ", checked ? text(bad, bad ? " FAILED" : " OK") : "not checked",
              "; average bus bandwidth: ", digits(bus_bw), " GB/s\n");
}

nlohmann::ordered_json to_json(const nlohmann::ordered_json& config, std::span<const Result> results) {
  auto rows = nlohmann::ordered_json::array();
  for (const Result& result : results)
    rows.push_back({{"size", result.size_bytes},
                    {"count", result.count},
                    {"type", short_name(result.dtype)},
                    {"redop", name_of(result.op)},
                    {"out_of_place", to_json(result.out_of_place)},
                    {"in_place", to_json(result.in_place)}});
  return {{"config", config}, {"results", std::move(rows)}};
}

}  // namespace anello::bench
