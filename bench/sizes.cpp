#include "bench/sizes.hpp"

#include <anello/error.hpp>
#include <charconv>
#include <cmath>

#include "ring/base/text.hpp"

namespace anello::bench {
namespace {

constexpr std::size_t kMaxSizes = 10000;
constexpr std::string_view kUnits = "KMGT";

char upper(char c) {
  return c >= 'a' && c <= 'z' ? char(c - 'a' + 'A') : c;
}

}  // namespace

std::uint64_t parse_size(std::string_view what, std::string_view given) {
  std::uint64_t value = 0;
  const char* const end = given.data() + given.size();
  const auto [after, error] = std::from_chars(given.data(), end, value);
  std::string unit;
  for (const char* c = after; c != end; c++) unit.push_back(upper(*c));
  const std::size_t power = unit.empty() ? std::string::npos : kUnits.find(unit[0]);
  const int shift = power == std::string::npos ? 0 : 10 * int(power + 1);
  if (shift > 0) unit.erase(0, 1);
  const bool known = unit.empty() || unit == "B" || (shift > 0 && unit == "IB");
  if (error != std::errc() || !known || value > (UINT64_MAX >> 1 >> shift))
    throw Error(ErrorCode::configuration, text(what, " '", given, "' is not a size such as 4, 64K, 256M or 1G"));
  return value << shift;
}

std::vector<std::uint64_t> sizes(const SizeRange& range) {
  if (range.end < range.begin)
    throw Error(ErrorCode::configuration,
                text("the last size, ", range.end, " bytes, is smaller than the first, ", range.begin, " bytes"));
  if (range.increment == 0 && !(range.factor > 1 && std::isfinite(range.factor)))
    throw Error(ErrorCode::configuration,
                text("-f ", range.factor, ": sizes must grow; give a factor above 1, or -i BYTES"));
  std::vector<std::uint64_t> all;
  for (std::uint64_t size = range.begin; size <= range.end;) {
    if (all.size() == kMaxSizes)
      throw Error(ErrorCode::configuration, text("more than ", kMaxSizes, " sizes; give a larger -f or -i"));
    all.push_back(size);
    const double grown = std::floor(double(size) * range.factor);
    if (range.increment == 0 && grown > double(range.end)) break;
    const std::uint64_t next = range.increment ? size + range.increment : std::uint64_t(grown);
    size = next > size ? next : size + 1;
  }
  return all;
}

}  // namespace anello::bench
