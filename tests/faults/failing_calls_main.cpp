// anello-failing-calls MOST [EVERY]: one call of the C library, or one allocation, fails on one rank of three. Prints
// every trial with a wrong end; ends with 1 if there was one.
#include <iostream>
#include <string>

#include "ring/base/config.hpp"
#include "ring/base/text.hpp"
#include "tests/faults/failing_trial.hpp"

namespace anello::faults {
namespace {

// Lets calls of the C library fail on one rank: for each function and error, the trials fail at most `most` calls,
// evenly spread. Only every `every`-th of these trials is carried out.
int run_calls(std::uint64_t most, int every) {
  int possible = 0, tried = 0, wrong = 0;
  for (const std::string transport : {"tcp", "auto"})
    for (const std::string phase : kPhases) {
      FailingTrial trial{.phase = phase, .transport = transport};
      const auto counted = count_calls(trial, ANELLO_FAILING_RANK);
      for_each_failure([&](const PossibleFailure& failure) {
        const auto calls = counted.find(std::string(failure.name));
        if (calls == counted.end()) return;
        for (std::uint64_t number = 1; number <= calls->second; number += 1 + (calls->second - 1) / most) {
          if (possible++ % every != 0) continue;
          trial.failing = {calls->first, number, failure.error};
          const std::string complaint = carry_out(trial, ANELLO_FAILING_RANK);
          if (!complaint.empty()) std::cout << text(describe(trial), complaint) << std::endl;
          wrong += !complaint.empty();
          tried++;
        }
      });
    }
  std::cout << text(tried, " failing calls, ", wrong, " not as promised") << std::endl;
  return wrong == 0 && tried > 0 ? 0 : 1;
}

}  // namespace
}  // namespace anello::faults

int main(int argc, char** argv) {
  using namespace anello;
  if (argc != 2 && argc != 3) {
    std::cerr << "usage: anello-failing-calls MOST [EVERY]   (at most MOST calls of each function and error in each "
                 "phase; of all these each EVERY-th)\n";
    return 2;
  }
  try {
    const auto most = std::uint64_t(parse_number("MOST", argv[1], 1, 1'000'000));
    return faults::run_calls(most, argc == 3 ? int(parse_number("EVERY", argv[2], 1, 1'000'000)) : 1);
  } catch (const std::exception& e) {
    std::cerr << text("anello-failing-calls: ", e.what(), "\n");
    return 2;
  }
}
