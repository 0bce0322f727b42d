#include "tests/support/pattern.hpp"

#include <regex>

namespace anello::pattern {
namespace {

Match strings(const std::smatch& found) {
  return {found.begin(), found.end()};
}

}  // namespace

std::optional<Match> match(const std::string& text, const std::string& pattern) {
  std::smatch found;
  if (!std::regex_match(text, found, std::regex(pattern))) return std::nullopt;
  return strings(found);
}

std::optional<Match> find(const std::string& text, const std::string& pattern) {
  std::smatch found;
  if (!std::regex_search(text, found, std::regex(pattern))) return std::nullopt;
  return strings(found);
}

std::vector<Match> find_all(const std::string& text, const std::string& pattern) {
  const std::regex regex(pattern);
  std::vector<Match> all;
  for (std::sregex_iterator at(text.begin(), text.end(), regex), end; at != end; ++at) all.push_back(strings(*at));
  return all;
}

}  // namespace anello::pattern
