// The findings of `anello doctor` about one host: facts, each with a name, and problems. Plain data that ranks send to
// each other.
#pragma once
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

namespace anello::launch {

struct Fact {
  std::string name, value;
  bool differs = false;  // true if hosts of one job usually have different values
  friend bool operator==(const Fact&, const Fact&) = default;
};

struct Findings {
  std::vector<Fact> facts;
  std::vector<std::string> problems;  // one sentence each

  void fact(std::string name, std::string value) { facts.push_back({std::move(name), std::move(value)}); }
  void fact_of_one_host(std::string name, std::string value) {
    facts.push_back({std::move(name), std::move(value), true});
  }
  void problem(std::string sentence) { problems.push_back(std::move(sentence)); }
};

std::string encode(const Findings& findings);
// Throws Error{protocol} if `text` was not made by encode().
Findings decode_findings(std::string_view text);

// Prints one line for each fact.
void print_facts(const std::vector<Fact>& facts, std::ostream& out);
// Prints the last part of a report: the problems, or that there are none.
void print_problems(const std::vector<std::string>& problems, std::ostream& out);

}  // namespace anello::launch
