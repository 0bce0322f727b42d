#include "ring/failure/stall_text.hpp"

#include <algorithm>

#include "ring/base/rank_list.hpp"
#include "ring/base/text.hpp"

namespace anello::failure {
namespace {

using State = StallAnswer::State;

bool is_missing(const StallAnswer& answer) {
  return answer.state != State::waits && answer.state != State::called;
}

// The predicate of a sentence about ranks: `one` follows "rank 2 on host2", and `several` follows "ranks 4-7".
struct Predicate {
  std::string one, several;
};

// Collects clauses, and lists ranks with the same predicate together.
class Clauses {
 public:
  explicit Clauses(const LocalView& view) : view_(view) {}

  void add(int rank, Predicate predicate) {
    if (!find(predicate) && clauses_.size() >= kMax) predicate = {" is missing too", " are missing too"};
    Clause* clause = find(predicate);
    if (!clause) clause = &clauses_.emplace_back(Clause{predicate, {}});
    clause->ranks.push_back(rank);
  }

  std::string text() const {
    std::string out;
    for (const auto& [predicate, ranks] : clauses_) {
      if (!out.empty()) out += "; ";
      out += ranks.size() > 1 ? rank_list(ranks) + predicate.several : view_.named(ranks.front()) + predicate.one;
    }
    return out;
  }

 private:
  static constexpr std::size_t kMax = 8;
  struct Clause {
    Predicate predicate;
    std::vector<int> ranks;
  };
  Clause* find(const Predicate& predicate) {
    const auto same = [&](const Clause& clause) { return clause.predicate.several == predicate.several; };
    const auto found = std::ranges::find_if(clauses_, same);
    return found == clauses_.end() ? nullptr : &*found;
  }

  const LocalView& view_;
  std::vector<Clause> clauses_;
};

std::string in_group(std::uint64_t group, const std::string& name) {
  return group == 0 ? "" : " in " + (name.empty() ? "a group" : name);
}

std::string what_it_does_instead(const StallAnswer& answer, const StallFindings& findings, bool is_one) {
  if (answer.waits_in) {
    const std::uint64_t group = answer.waits_in->group;
    const std::string where = group == findings.operation.group ? "" : in_group(group, answer.waits_in_group);
    return (is_one ? ", and waits in " : ", and wait in ") + describe(*answer.waits_in) + where;
  }
  if (answer.last) return ", and called last " + describe(*answer.last);
  const bool is_transfer = findings.operation.kind == Kind::transfer;
  return answer.state == State::not_called && !is_transfer ? ", and called nothing before" : "";
}

std::string missing(int rank, const StallAnswer& answer, const StallFindings& findings, bool is_one) {
  if (answer.state == State::refused)
    return (is_one ? " refused its call: " : " refused their calls: ") + answer.reason;
  std::string what = answer.state == State::not_called ? "come" : "made this group";
  if (findings.operation.kind == Kind::transfer && findings.pair.size() == 2)
    what = rank == findings.pair[0] ? text("called send to rank ", findings.pair[1])
                                    : text("called recv from rank ", findings.pair[0]);
  std::string rest = what_it_does_instead(answer, findings, is_one);
  if (answer.state == State::other_order)
    rest += ", whose members are the same in another order; all ranks must name them in the same order";
  if (answer.state == State::other_group)
    rest += ", which is another group of the same members; all ranks must make their groups in the same order";
  return text(is_one ? " has not " : " have not ", what, rest);
}

Predicate silent() {
  return {" does not answer: its process is stopped, it is cut off, or its host is overloaded",
          " do not answer: their processes are stopped, they are cut off, or their hosts are overloaded"};
}

// Returns a text such as "ranks 0, 1 wait; rank 2 has called it and does not wait".
std::string present(const StallFindings& findings) {
  std::vector<int> waiting, others;
  for (const auto& [rank, answer] : findings.answers)
    if (!is_missing(answer)) (answer.state == State::waits ? waiting : others).push_back(rank);
  std::string out;
  if (!waiting.empty()) out += "; " + rank_list(waiting) + (waiting.size() == 1 ? " waits" : " wait");
  if (!others.empty())
    out += "; " + rank_list(others) +
           (others.size() == 1 ? " has called it: it is done, moves data or has just come"
                               : " have called it: they are done, move data or have just come");
  return out;
}

}  // namespace

int StallFindings::culprit() const {
  for (const auto& [rank, answer] : answers)
    if (is_missing(answer)) return rank;
  return silent.empty() ? -1 : silent.front();
}

std::string describe(const LocalView& view, const StallFindings& findings) {
  Clauses clauses(view);
  for (const auto& [rank, answer] : findings.answers)
    if (is_missing(answer))
      clauses.add(rank, {missing(rank, answer, findings, true), missing(rank, answer, findings, false)});
  for (const int rank : findings.silent) clauses.add(rank, silent());
  std::string who = clauses.text();
  if (findings.culprit() < 0 && findings.is_complete)
    who = "all ranks have called it, so a network or a process is slow";
  who += present(findings);
  if (who.starts_with("; ")) who.erase(0, 2);
  const std::string what = describe(findings.operation) + in_group(findings.operation.group, findings.group);
  if (findings.period.count() == 0) return text(what, " cannot go on: ", who);
  return text(what, " has stalled for ", double(findings.period.count()) / 1000, " s: ", who);
}

}  // namespace anello::failure
