#include "ring/failure/rank_runs.hpp"

namespace anello::failure {

std::vector<RankRun> runs_of(const std::vector<int>& ranks) {
  std::vector<RankRun> runs;
  for (std::size_t k = 0; k < ranks.size(); k += runs.back().count) {
    RankRun& run = runs.emplace_back(RankRun{ranks[k], k + 1 < ranks.size() ? ranks[k + 1] - ranks[k] : 0, 1});
    while (k + run.count < ranks.size() && ranks[k + run.count] - ranks[k + run.count - 1] == run.step) run.count++;
  }
  return runs;
}

}  // namespace anello::failure
