#include "bench/simulate/units.hpp"

#include <algorithm>
#include <anello/error.hpp>
#include <array>
#include <cmath>
#include <iomanip>
#include <limits>
#include <optional>
#include <utility>

#include "ring/base/text.hpp"

namespace anello::bench {
namespace {

using Unit = std::pair<std::string_view, double>;
constexpr std::array kTimes = {Unit{"ns", 1e-3}, Unit{"us", 1}, Unit{"ms", 1e3}, Unit{"s", 1e6}};
constexpr std::array kRates = {Unit{"Mbit", 0.125}, Unit{"Gbit", 125}, Unit{"MB", 1}, Unit{"GB", 1e3}};
constexpr std::string_view kUnlimited = "unlimited";

// Parses a number of at least 0 and a unit, without other characters before, between or after the two.
template <class Units>
std::optional<double> parse(std::string_view given, const Units& units) {
  const std::size_t digits = std::min(given.find_first_not_of("0123456789."), given.size());
  std::istringstream number{std::string(given.substr(0, digits))};
  number.imbue(std::locale::classic());
  double value = 0;
  if (!(number >> value) || number.peek() != std::istringstream::traits_type::eof()) return std::nullopt;
  for (const auto& [name, factor] : units)
    if (given.substr(digits) == name) return value * factor;
  return std::nullopt;
}

// Prints four significant digits, and never an exponent, because parse() refuses one.
std::string short_number(double value) {
  if (value == 0) return "0";
  std::ostringstream out;
  out << std::fixed << std::setprecision(std::clamp(3 - int(std::floor(std::log10(value))), 0, 12)) << value;
  std::string digits = out.str();
  if (digits.find('.') == std::string::npos) return digits;
  digits.erase(digits.find_last_not_of('0') + 1);
  if (digits.ends_with('.')) digits.pop_back();
  return digits;
}

}  // namespace

double parse_time_us(std::string_view what, std::string_view given) {
  if (const auto us = parse(given, kTimes)) return *us;
  throw Error(ErrorCode::configuration, text(what, " '", given, "' is not a duration such as 800ns, 15us or 1.5ms"));
}

std::string time_text(double us) {
  const std::string ns = short_number(us * 1e3);
  return us < 1 && ns != "1000" ? ns + "ns" : short_number(us) + "us";
}

double parse_rate(std::string_view what, std::string_view given) {
  if (given == kUnlimited) return std::numeric_limits<double>::infinity();
  const std::string_view quantity = given.ends_with("/s") ? given.substr(0, given.size() - 2) : given;
  if (const auto rate = parse(quantity, kRates); rate && *rate > 0) return *rate;
  throw Error(ErrorCode::configuration,
              text(what, " '", given, "' is not a rate such as 100Mbit, 25Gbit, 9.3GB or ", kUnlimited));
}

std::string rate_text(double bytes_per_us) {
  return std::isinf(bytes_per_us) ? std::string(kUnlimited) : text(short_number(bytes_per_us / 1e3), "GB");
}

}  // namespace anello::bench
