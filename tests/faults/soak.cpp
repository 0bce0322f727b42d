#include "tests/faults/soak.hpp"

#include <sys/wait.h>

#include <filesystem>
#include <set>

#include "ring/base/text.hpp"
#include "tests/faults/cut.hpp"
#include "tests/support/random.hpp"
#include "tests/support/resources.hpp"

namespace anello::faults {
namespace {

std::set<std::string> names(const char* folder) {
  std::set<std::string> all;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) all.insert(entry.path().filename());
  return all;
}

// Resources that a world must have released when it has ended: open descriptors, named shared memory, processes.
struct Held {
  std::ptrdiff_t descriptors = open_descriptors();
  std::set<std::string> memories = names("/dev/shm");
  bool children = waitpid(-1, nullptr, WNOHANG) >= 0;
};

std::string left_behind(const Held& before, const Held& now) {
  std::string all;
  if (now.descriptors > before.descriptors) all += text(" ", now.descriptors - before.descriptors, " descriptors");
  for (const std::string& memory : now.memories)
    if (!before.memories.contains(memory)) all += text(" /dev/shm/", memory);
  if (now.children) all += " processes";
  return all;
}

// Draws a fault: deaths most often, and silence seldom, because each silence lasts for its whole limit.
Fault any_fault(Random& random) {
  const std::uint64_t draw = random.below(100);
  if (draw < 70) return Fault::kill;
  if (draw < 80) return Fault::server;
  if (draw < 90) return Fault::none;
  return draw < 95 ? Fault::stop : Fault::pause;
}

constexpr int kCutPercent = 5;

struct Tried {
  std::string trial;
  Result result;
};

Tried try_any(std::uint64_t seed, const std::string& victim_program, Soaked& soaked) {
  Random random(seed);
  soaked.worlds++;
  if (random.percent(kCutPercent)) {
    soaked.cuts++;
    const Cut cut = any_cut(seed);
    return {describe(cut), carry_out(cut)};
  }
  Trial trial = any_trial(any_fault(random), seed);
  trial.silence_limit = kShortLimit;
  soaked.faults[std::size_t(trial.fault)]++;
  return {describe(trial), carry_out(trial, victim_program)};
}

}  // namespace

Soaked soak(milliseconds time, std::uint64_t seed, const std::string& victim_program,
            const std::function<void(const std::string&)>& complain) {
  Soaked soaked;
  const Held before;
  for (const auto end = std::chrono::steady_clock::now() + time; std::chrono::steady_clock::now() < end; seed++) {
    const Tried tried = try_any(seed, victim_program, soaked);
    soaked.operations += tried.result.operations;
    const auto tell = [&](long& count, const std::string& what) {
      if (what.empty()) return;
      count++;
      complain(text("seed ", seed, ": ", tried.trial, ": ", what));
    };
    tell(soaked.wrong, tried.result.wrong);
    tell(soaked.leaks, left_behind(before, {}));
  }
  return soaked;
}

std::string describe(const Soaked& soaked) {
  std::string faults;
  for (std::size_t k = 0; k < soaked.faults.size(); k++)
    faults += text(k ? ", " : "", soaked.faults[k], " ", name(Fault(k)));
  return text(soaked.worlds, " worlds (", faults, ", ", soaked.cuts, " cut), ", soaked.operations,
              " operations on surviving ranks: ", soaked.wrong, " not as promised, ", soaked.leaks,
              " times something left behind");
}

}  // namespace anello::faults
