// anello-faults: seeded trials of one fault, and how soon the survivors knew; or of all, as long as one likes. Ends
// with 1 if anything was not as promised.
#include <algorithm>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include "ring/base/config.hpp"
#include "ring/base/text.hpp"
#include "tests/faults/soak.hpp"

namespace anello::faults {
namespace {

constexpr std::string_view kUsage =
    "usage: anello-faults none|server|kill|stop|pause TRIALS [FIRST-SEED]\n"
    "       anello-faults soak SECONDS [FIRST-SEED]\n";

void say(const std::string& line) {
  std::cout << line << std::endl;
}

int run_soak(long seconds, long first) {
  const Soaked soaked = soak(std::chrono::seconds(seconds), std::uint64_t(first), ANELLO_VICTIM, say);
  say(describe(soaked));
  return soaked.wrong + soaked.leaks == 0 ? 0 : 1;
}

int run(Fault fault, long trials, long first) {
  std::vector<long> latest_ms;
  long wrong = 0, in_good_order = 0;
  for (long seed = first; seed < first + trials; seed++) {
    const Trial trial = any_trial(fault, std::uint64_t(seed));
    const Result result = carry_out(trial, ANELLO_VICTIM);
    if (!result.wrong.empty()) {
      wrong++;
      say(text("seed ", seed, ": ", describe(trial), ": ", result.wrong));
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
  const std::string kSoak = "soak";
  const std::map<std::string, Fault> faults{{"none", Fault::none},
                                            {"server", Fault::server},
                                            {"kill", Fault::kill},
                                            {"stop", Fault::stop},
                                            {"pause", Fault::pause}};
  if (argc < 3 || argc > 4 || (!faults.contains(argv[1]) && argv[1] != kSoak)) {
    std::cerr << kUsage;
    return 2;
  }
  try {
    const long amount = parse_number("TRIALS or SECONDS", argv[2], 1, 1'000'000);
    const long first = argc == 4 ? parse_number("FIRST-SEED", argv[3], 1, 1L << 40) : 1;
    return argv[1] == kSoak ? run_soak(amount, first) : run(faults.at(argv[1]), amount, first);
  } catch (const std::exception& e) {
    std::cerr << text("anello-faults: ", e.what(), "\n");
    return 2;
  }
}
