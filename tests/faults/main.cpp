// anello-faults: runs random trials of one fault, and prints how soon the survivors received the error; or of all
// faults, for any time. Ends with 1 if a trial had a wrong result.
#include <algorithm>
#include <cmath>
#include <functional>
#include <iostream>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "ring/base/config.hpp"
#include "ring/base/text.hpp"
#include "tests/faults/besieged.hpp"
#include "tests/faults/cut.hpp"
#include "tests/faults/soak.hpp"

namespace anello::faults {
namespace {

constexpr std::string_view kUsage =
    "usage: anello-faults none|server|kill|stop|pause|cut TRIALS [FIRST-SEED]\n"
    "       anello-faults soak SECONDS [FIRST-SEED]\n"
    "       anello-faults strangers OF-EACH-KIND [ROUNDS]\n";

constexpr long kStrangersASecond = 2000;

void say(const std::string& line) {
  std::cout << line << std::endl;
}

int run_soak(long seconds, long first) {
  const Soaked soaked = soak(std::chrono::seconds(seconds), std::uint64_t(first), ANELLO_VICTIM, say);
  say(describe(soaked));
  return soaked.wrong + soaked.leaks == 0 && soaked.operations > 0 ? 0 : 1;
}

struct Tried {
  std::string trial;
  Result result;
};
Tried try_cut(std::uint64_t seed) {
  const Cut cut = any_cut(seed);
  return {describe(cut), carry_out(cut)};
}
Tried try_fault(Fault fault, std::uint64_t seed) {
  const Trial trial = any_trial(fault, seed);
  return {describe(trial), carry_out(trial, ANELLO_VICTIM)};
}

int run(const std::string& fault, const std::function<Tried(std::uint64_t seed)>& carry_out, long trials, long first) {
  std::vector<long> latest_ms;
  long wrong = 0, in_good_order = 0;
  for (long seed = first; seed < first + trials; seed++) {
    const auto [trial, result] = carry_out(std::uint64_t(seed));
    if (!result.wrong.empty()) {
      wrong++;
      say(text("seed ", seed, ": ", trial, ": ", result.wrong));
    }
    if (result.latest) latest_ms.push_back(result.latest->count());
    in_good_order += !result.told;
  }
  std::sort(latest_ms.begin(), latest_ms.end());
  const auto percentile = [&](std::size_t percent) {
    return latest_ms.empty() ? -1 : latest_ms[(latest_ms.size() - 1) * percent / 100];
  };
  std::cout << text(trials, " worlds, fault ", fault, ": ", wrong, " not as promised, ", in_good_order,
                    " ended in good order; the last survivor knew after (ms) p50 ", percentile(50), ", p99 ",
                    percentile(99), ", most ", percentile(100), "\n");
  return wrong == 0 ? 0 : 1;
}

double tenths(double value) {
  return std::round(10 * value) / 10;
}

// Alternates runs of a quiet and of a besieged job, which are otherwise equal.
int run_siege(long of_each_kind, long rounds) {
  // This number of epochs takes somewhat longer than the siege on two cores.
  const long epochs = of_each_kind;
  const Job quiet{ANELLO_PROGRAM, {"sh", "-c", text("exec \"$0\" --epochs ", epochs, " >/dev/null"), ANELLO_TRAINER}};
  Job besieged = quiet;
  besieged.of_each_kind = of_each_kind;
  besieged.a_second = kStrangersASecond;
  std::vector<double> cost;
  bool wrong = false;
  for (long round = 0; round < rounds; round++) {
    const Outcome peace = carry_out(quiet), war = carry_out(besieged);
    cost.push_back(100 * (war.cpu_s / peace.cpu_s - 1));
    const std::string complaint = peace.wrong + war.wrong + miscounted(war);
    wrong |= !complaint.empty();
    say(text("in peace ", tenths(peace.cpu_s), " s of processor time in ", tenths(peace.wall_s), " s; besieged by ",
             std::accumulate(war.made.begin(), war.made.end(), 0L), " strangers ", tenths(war.cpu_s), " s in ",
             tenths(war.wall_s), " s (", tenths(cost.back()), " % more), memory grew by ", war.grown_kib, " KiB of ",
             war.max_kib, complaint.empty() ? "" : "; wrong: ", complaint));
    std::string counts = "  counted:";
    for (std::size_t k = 0; k < trace::kRejectReasons; k++)
      counts += text(" ", name(trace::RejectReason(k)), " ", war.counted[k]);
    say(counts);
  }
  std::ranges::nth_element(cost, cost.begin() + std::ptrdiff_t(cost.size() / 2));
  say(text("median of the rounds: ", tenths(cost[cost.size() / 2]), " % more processor time"));
  return wrong ? 1 : 0;
}

}  // namespace
}  // namespace anello::faults

int main(int argc, char** argv) {
  using namespace anello;
  using namespace anello::faults;
  const std::string kSoak = "soak", kSiege = "strangers", kCut = "cut";
  const std::map<std::string, Fault> faults{{"none", Fault::none},
                                            {"server", Fault::server},
                                            {"kill", Fault::kill},
                                            {"stop", Fault::stop},
                                            {"pause", Fault::pause}};
  const bool is_known =
      argc > 1 && (faults.contains(argv[1]) || argv[1] == kSoak || argv[1] == kSiege || argv[1] == kCut);
  if (argc < 3 || argc > 4 || !is_known) {
    std::cerr << kUsage;
    return 2;
  }
  try {
    const long amount = parse_number("TRIALS or SECONDS", argv[2], 1, 1'000'000);
    if (argv[1] == kSiege) return run_siege(amount, argc == 4 ? parse_number("ROUNDS", argv[3], 1, 1000) : 1);
    const long first = argc == 4 ? parse_number("FIRST-SEED", argv[3], 1, 1L << 40) : 1;
    if (argv[1] == kSoak) return run_soak(amount, first);
    if (argv[1] == kCut) return run(kCut, try_cut, amount, first);
    const auto with_fault = [fault = faults.at(argv[1])](std::uint64_t seed) { return try_fault(fault, seed); };
    return run(argv[1], with_fault, amount, first);
  } catch (const std::exception& e) {
    std::cerr << text("anello-faults: ", e.what(), "\n");
    return 2;
  }
}
