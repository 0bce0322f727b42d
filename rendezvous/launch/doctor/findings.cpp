#include "rendezvous/launch/doctor/findings.hpp"

#include <anello/error.hpp>
#include <nlohmann/json.hpp>
#include <ostream>

namespace anello::launch {
namespace {

constexpr std::size_t kColumn = 21;  // where values begin

}  // namespace

std::string encode(const Findings& findings) {
  nlohmann::json facts = nlohmann::json::array();
  for (const Fact& fact : findings.facts) facts.push_back({fact.name, fact.value, fact.differs});
  return nlohmann::json{{"facts", facts}, {"problems", findings.problems}}.dump(
      -1, ' ', false, nlohmann::json::error_handler_t::replace);
}

Findings decode_findings(std::string_view text) try {
  const nlohmann::json json = nlohmann::json::parse(text);
  Findings findings;
  for (const auto& fact : json.at("facts"))
    findings.facts.push_back({fact.at(0).get<std::string>(), fact.at(1).get<std::string>(), fact.at(2).get<bool>()});
  findings.problems = json.at("problems").get<std::vector<std::string>>();
  return findings;
} catch (const nlohmann::json::exception& error) {
  throw Error(ErrorCode::protocol, std::string("a rank's report was not made by `anello doctor`: ") + error.what());
}

void print_facts(const std::vector<Fact>& facts, std::ostream& out) {
  for (const auto& [name, value, differs] : facts)
    out << name << std::string(name.size() < kColumn ? kColumn - name.size() : 1, ' ') << value << "\n";
}

void print_problems(const std::vector<std::string>& problems, std::ostream& out) {
  out << (problems.empty() ? "\nno problems found\n" : "\nproblems:\n");
  for (const std::string& sentence : problems) out << "  " << sentence << "\n";
}

}  // namespace anello::launch
