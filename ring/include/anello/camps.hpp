// Values that must be equal may differ between ranks. This finds the ranks at fault: the ranks outside of a majority.
// The library makes its own errors in this way. A program that has gathered the values of all ranks can use camps(),
// with rank_at_fault() for Error::rank() and odd_camp() for the message. Pure; any thread.
#pragma once
#include <algorithm>
#include <cstddef>
#include <map>
#include <vector>

namespace anello {

// Ranks that have equal values.
template <class Value>
struct Camp {
  Value value;
  std::vector<int> ranks;  // ascending
};

// Groups the ranks by value. The largest camp is first. Among equally large camps, the camp with the lowest rank is
// first.
template <class Value>
std::vector<Camp<Value>> camps(const std::map<int, Value>& values) {
  std::vector<Camp<Value>> all;
  for (const auto& [rank, value] : values) {
    const auto equal = [&value = value](const Camp<Value>& camp) { return camp.value == value; };
    if (const auto camp = std::find_if(all.begin(), all.end(), equal); camp != all.end())
      camp->ranks.push_back(rank);
    else
      all.push_back({value, {rank}});
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const auto& a, const auto& b) { return a.ranks.size() > b.ranks.size(); });
  return all;
}

// True if a camp of this size has more than half of `ranks` ranks. Then the other ranks are at fault.
constexpr bool is_majority(std::size_t camp, std::size_t ranks) {
  return 2 * camp > ranks;
}

// True if the first camp is a majority.
template <class Value>
bool has_majority(const std::vector<Camp<Value>>& camps, std::size_t ranks) {
  return !camps.empty() && is_majority(camps.front().ranks.size(), ranks);
}

// Returns the lowest rank outside of the majority. -1 if there is no majority, or if all ranks agree.
template <class Value>
int rank_at_fault(const std::vector<Camp<Value>>& camps, std::size_t ranks) {
  if (!has_majority(camps, ranks)) return -1;
  int lowest = -1;
  for (std::size_t k = 1; k < camps.size(); k++)
    if (lowest < 0 || camps[k].ranks.front() < lowest) lowest = camps[k].ranks.front();
  return lowest;
}

// Returns the camp to show beside the first camp: the camp of the rank at fault, or the second camp if no rank is at
// fault. There must be at least two camps.
template <class Value>
const Camp<Value>& odd_camp(const std::vector<Camp<Value>>& camps, std::size_t ranks) {
  const int fault = rank_at_fault(camps, ranks);
  const auto found = std::find_if(camps.begin() + 1, camps.end(),
                                  [&](const Camp<Value>& camp) { return camp.ranks.front() == fault; });
  return found != camps.end() ? *found : camps[1];
}

}  // namespace anello
