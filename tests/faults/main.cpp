// anello-faults: seeded trials of one fault, and how soon the survivors knew. Ends with 1 if anything was not as
// promised.
#include <algorithm>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include "ring/base/config.hpp"
#include "ring/base/text.hpp"
#include "tests/faults/trial.hpp"

namespace anello::faults {
namespace {

constexpr std::string_view kUsage = "usage: anello-faults none|kill|stop|pause TRIALS [FIRST-SEED]\n";

int run(Fault fault, long trials, long first) {
  std::vector<long> latest_ms;
  long wrong = 0, in_good_order = 0;
  for (long seed = first; seed < first + trials; seed++) {
    const Trial trial = any_trial(fault, std::uint64_t(seed));
    const Result result = carry_out(trial, ANELLO_VICTIM);
    if (!result.wrong.empty()) {
      wrong++;
      std::cout << text("seed ", seed, ": ", describe(trial), ": ", result.wrong, "\n") << std::flush;
    }
    if (result.latest) latest_ms.push_back(result.latest->count());
    in_good_order += !result.told;
  }
  std::sort(latest_ms.begin(), latest_ms.end());
  const auto percentile = [&](std::size_t percent) {
    return latest_ms.empty() ? -1 : latest_ms[(latest_ms.size() - 1) * percent / 100];
  };
  std::cout << text(trials, " worlds, fault ", name(fault), ": ", wrong, " not as promised, ", in_good_order,
                    " ended in good order; the last survivor knew after (ms) p50 ", percentile(50), ", p99 ",
                    percentile(99), ", most ", percentile(100), "\n");
  return wrong == 0 ? 0 : 1;
}

}  // namespace
}  // namespace anello::faults

int main(int argc, char** argv) {
  using namespace anello;
  using namespace anello::faults;
  const std::map<std::string, Fault> faults{
      {"none", Fault::none}, {"kill", Fault::kill}, {"stop", Fault::stop}, {"pause", Fault::pause}};
  if (argc < 3 || argc > 4 || !faults.contains(argv[1])) {
    std::cerr << kUsage;
    return 2;
  }
  try {
    const long trials = parse_number("TRIALS", argv[2], 1, 1'000'000);
    return run(faults.at(argv[1]), trials, argc == 4 ? parse_number("FIRST-SEED", argv[3], 1, 1L << 40) : 1);
  } catch (const std::exception& e) {
    std::cerr << text("anello-faults: ", e.what(), "\n");
    return 2;
  }
}
