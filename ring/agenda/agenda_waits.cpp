// Describes for people why an operation waits: for which ranks, and which calls these ranks have made instead.
#include <string>
#include <string_view>

#include "ring/agenda/agenda.hpp"
#include "ring/base/text.hpp"

namespace anello::agenda {
namespace {

constexpr std::string_view kCallJoin = "; a rank that has no more data must call join()";
constexpr std::string_view kMakeEquallyMany =
    "; if names differ only in numbers, the ranks have made different numbers of models, layers or optimizers: make "
    "equally many, or in TensorFlow call keras.backend.clear_session() on all ranks or give gradient() "
    "use_generic_names=True";

// Returns the name in a key: "'loss'" for "allreduce 'loss'".
std::string_view name_in(std::string_view key) {
  return key.substr(key.find(' ') + 1);
}

// Removes the numbers that Keras adds to names: "dense", "dense_1".
std::string without_numbers(std::string_view name) {
  std::string rest;
  bool in_number = false;
  for (const char c : name) {
    in_number = '0' <= c && c <= '9' && (in_number || rest.ends_with('_'));
    if (!in_number) rest += c;
  }
  std::erase(rest, '_');
  return rest;
}

}  // namespace

std::string Agenda::waits_for(const std::string& key) const {
  const bool is_join = key == kJoin;
  const auto entry = entries_.find(key);
  const int ranks = int(members_.size());
  std::string late, instead;
  bool has_others = is_join, are_renumbered = false;
  for (std::size_t child = 0; child < children_ && (is_join || entry != entries_.end()); child++) {
    if (joined_[child + 1] || (!is_join && entry->second[child + 1])) continue;
    const int neighbour = neighbours_[child];
    const bool is_alone = neighbour % 2 == 1 || neighbour + 1 == ranks;  // no rank reports to this neighbour
    late +=
        text(late.empty() ? "" : ", ", "rank ", world_rank(neighbour), is_alone ? "" : " or one that reports to it");
    const std::string other = is_join ? "" : reported_by(child + 1, key);
    if (other.empty()) continue;
    instead += text("; rank ", world_rank(neighbour), " called ", other, " instead");
    if (name_in(other) == name_in(key)) continue;
    has_others = true;
    are_renumbered |= without_numbers(other) == without_numbers(key);
  }
  if (late.empty() && rank_ > 0) return text(key, " waits for the answer of rank ", world_rank(neighbours_.back()));
  if (late.empty()) return undecided_.contains(key) ? text(key, " waits for operations that began before it") : key;
  return text(key, " waits for ", late, instead, has_others ? kCallJoin : "", are_renumbered ? kMakeEquallyMany : "");
}

// Returns an undecided operation that the subtree `part` has reported, preferably one with `key`'s name. Empty if the
// subtree has reported none.
std::string Agenda::reported_by(std::size_t part, std::string_view key) const {
  std::string found;
  for (const auto& [other, reports] : entries_)
    if (reports[part] && (found.empty() || name_in(other) == name_in(key))) found = other;
  return found;
}

}  // namespace anello::agenda
