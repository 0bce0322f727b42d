// Results as text in the columns of nccl-tests, and as JSON. Pure.
#pragma once
#include <anello/tensor.hpp>
#include <cstdint>
#include <iomanip>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <sstream>
#include <string>

#include "bench/statistics.hpp"

namespace anello::bench {

struct Figures {
  Timing timing;
  double alg_bw = 0, bus_bw = 0;       // rates in GB/s, computed from the median time
  double sent_bytes = 0;               // a call's bytes over the loopback interface, if they were counted
  std::optional<std::uint64_t> wrong;  // number of wrong elements over all ranks; empty if the results were not checked
};

struct Result {
  std::uint64_t size_bytes = 0, count = 0;  // size of one rank's larger buffer
  DType dtype = DType::f32;
  std::optional<Op> op;                           // empty if the operation does not reduce
  std::optional<Figures> out_of_place, in_place;  // empty if the operation cannot be called in this way
};

// Prints at least three significant digits if the value is 1 or more, and two decimals if it is below 10.
std::string digits(double value);

// Prints pairs of a value and the width of its column.
template <class... Parts>
std::string columns(const Parts&... parts) {
  std::ostringstream out;
  out << std::right;
  ((out << std::setw(parts.second) << parts.first), ...);
  return out.str();
}

std::string headline();  // three comment lines with the names of the columns
std::string line(const Result& result);
std::string loopback_line(const Result& result);  // a comment line with the bytes of a call, out of place and in place
std::string last_line(std::span<const Result> results);  // says whether any result was wrong

std::uint64_t wrong(std::span<const Result> results);

// Returns {"config": ..., "results": [...]}.
nlohmann::ordered_json to_json(const nlohmann::ordered_json& config, std::span<const Result> results);

}  // namespace anello::bench
