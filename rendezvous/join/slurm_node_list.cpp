#include "rendezvous/join/slurm_node_list.hpp"

#include <algorithm>
#include <anello/error.hpp>

#include "ring/base/config.hpp"
#include "ring/base/text.hpp"

namespace anello::rendezvous {
namespace {

constexpr long kMaxHosts = 65536, kMaxNumber = 1000000000;

struct List {
  std::string_view variable, text;
};

[[noreturn]] void refuse(const List& list) {
  throw Error(ErrorCode::configuration, text(list.variable, "='", printable(list.text), "' cannot be understood"));
}

long number_in(const List& list, std::string_view digits, long min, long max) try {
  return parse_number(list.variable, digits, min, max);
} catch (const Error&) {
  refuse(list);
}

// Splits `part` of the list at the commas outside of brackets.
std::vector<std::string_view> split(const List& list, std::string_view part) {
  std::vector<std::string_view> out;
  int depth = 0;
  std::size_t begin = 0;
  for (std::size_t at = 0; at <= part.size(); at++) {
    const char c = at < part.size() ? part[at] : ',';
    depth += (c == '[') - (c == ']');
    if (depth < 0 || depth > 1) refuse(list);
    if (c != ',' || depth != 0) continue;
    out.push_back(part.substr(begin, at - begin));
    if (out.back().empty()) refuse(list);
    begin = at + 1;
  }
  if (depth != 0) refuse(list);
  return out;
}

// Expands "3" or "07-12", and keeps leading zeros.
std::vector<std::string> expand_range(const List& list, std::string_view range) {
  const std::size_t dash = range.find('-');
  const std::string_view first = range.substr(0, dash);
  const std::string_view last = dash == range.npos ? first : range.substr(dash + 1);
  const long from = number_in(list, first, 0, kMaxNumber), to = number_in(list, last, from, from + kMaxHosts);
  std::vector<std::string> out;
  for (long number = from; number <= to; number++) {
    const std::string digits = std::to_string(number);
    out.push_back(std::string(first.size() - std::min(first.size(), digits.size()), '0') + digits);
  }
  return out;
}

// Expands "n[1-2]m[3,4]" to every combination. The last bracket changes fastest.
std::vector<std::string> expand_name(const List& list, std::string_view name) {
  const std::size_t open = name.find('[');
  if (open == name.npos) return {std::string(name)};
  const std::size_t close = name.find(']', open);
  if (close == name.npos) refuse(list);
  std::vector<std::string> out;
  const std::vector<std::string> tails = expand_name(list, name.substr(close + 1));
  for (const std::string_view range : split(list, name.substr(open + 1, close - open - 1)))
    for (const std::string& number : expand_range(list, range))
      for (const std::string& tail : tails) {
        out.push_back(text(name.substr(0, open), number, tail));
        if (long(out.size()) > kMaxHosts) refuse(list);
      }
  return out;
}

}  // namespace

std::vector<std::string> expand_slurm_nodes(std::string_view variable, std::string_view value) {
  const List list{variable, value};
  std::vector<std::string> out;
  for (const std::string_view name : split(list, value))
    for (std::string& one : expand_name(list, name)) out.push_back(std::move(one));
  if (long(out.size()) > kMaxHosts) refuse(list);
  return out;
}

std::vector<int> expand_slurm_counts(std::string_view variable, std::string_view value) {
  const List list{variable, value};
  std::vector<int> out;
  for (const std::string_view part : split(list, value)) {
    const std::size_t times = part.find("(x");
    const bool repeated = times != part.npos;
    if (repeated && !part.ends_with(")")) refuse(list);
    const long repeats = repeated ? number_in(list, part.substr(times + 2, part.size() - times - 3), 1, kMaxHosts) : 1;
    out.insert(out.end(), std::size_t(repeats), int(number_in(list, part.substr(0, times), 1, kMaxHosts)));
    if (long(out.size()) > kMaxHosts) refuse(list);
  }
  return out;
}

}  // namespace anello::rendezvous
