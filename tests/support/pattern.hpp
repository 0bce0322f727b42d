// Regular expressions (ECMAScript's) for tests. The standard library's templates are compiled only in this unit,
// because they take 2 s in each unit that uses them.
#pragma once
#include <optional>
#include <string>
#include <vector>

namespace anello::pattern {

// The parts of a text that a pattern has matched: the whole match, then each of its groups.
using Match = std::vector<std::string>;

// Matches the whole text; std::nullopt if it does not match.
std::optional<Match> match(const std::string& text, const std::string& pattern);

// Finds the first place, or all places, where a part of the text matches.
std::optional<Match> find(const std::string& text, const std::string& pattern);
std::vector<Match> find_all(const std::string& text, const std::string& pattern);

}  // namespace anello::pattern
