// Regular expressions (ECMAScript's) for tests. The standard library's templates are compiled here only: they take 2 s
// in each unit that uses them.
#pragma once
#include <optional>
#include <string>
#include <vector>

namespace anello::pattern {

// What a pattern found: the whole match, then each of its groups.
using Match = std::vector<std::string>;

// The whole text as the pattern describes it; std::nullopt if it does not.
std::optional<Match> match(const std::string& text, const std::string& pattern);

// The first place, and all places, where the pattern describes a part of the text.
std::optional<Match> find(const std::string& text, const std::string& pattern);
std::vector<Match> find_all(const std::string& text, const std::string& pattern);

}  // namespace anello::pattern
