#include "tests/faults/soak.hpp"

#include <sys/wait.h>

#include "ring/base/text.hpp"
#include "tests/support/random.hpp"
#include "tests/support/resources.hpp"

namespace anello::faults {
namespace {

// What a world that has ended may not leave: open descriptors, shared memory with a name, processes.
struct Held {
  std::ptrdiff_t descriptors = open_descriptors(), memories = entries("/dev/shm");
  bool children = waitpid(-1, nullptr, WNOHANG) >= 0;
};

std::string left_behind(const Held& before, const Held& now) {
  std::string all;
  if (now.descriptors > before.descriptors) all += text(" ", now.descriptors - before.descriptors, " descriptors");
  if (now.memories > before.memories) all += text(" ", now.memories - before.memories, " files in /dev/shm");
  if (now.children) all += " processes";
  return all;
}

// Silence costs its limit; deaths are what there is most of.
Fault any_fault(Random& random) {
  const std::uint64_t draw = random.below(100);
  if (draw < 70) return Fault::kill;
  if (draw < 80) return Fault::server;
  if (draw < 90) return Fault::none;
  return draw < 95 ? Fault::stop : Fault::pause;
}

}  // namespace

Soaked soak(milliseconds time, std::uint64_t seed, const std::string& victim_program,
            const std::function<void(const std::string&)>& complain) {
  Soaked soaked;
  const Held before;
  for (const auto end = std::chrono::steady_clock::now() + time; std::chrono::steady_clock::now() < end; seed++) {
    Random random(seed);
    Trial trial = any_trial(any_fault(random), seed);
    trial.silence_limit = milliseconds(1000);
    const Result result = carry_out(trial, victim_program);
    soaked.worlds++;
    soaked.faults[std::size_t(trial.fault)]++;
    soaked.operations += result.operations;
    const auto tell = [&](long& count, const std::string& what) {
      if (what.empty()) return;
      count++;
      complain(text("seed ", seed, ": ", describe(trial), ": ", what));
    };
    tell(soaked.wrong, result.wrong);
    tell(soaked.leaks, left_behind(before, {}));
  }
  return soaked;
}

std::string describe(const Soaked& soaked) {
  std::string faults;
  for (std::size_t k = 0; k < soaked.faults.size(); k++)
    faults += text(k ? ", " : "", soaked.faults[k], " ", name(Fault(k)));
  return text(soaked.worlds, " worlds (", faults, "), ", soaked.operations,
              " operations on surviving ranks: ", soaked.wrong, " not as promised, ", soaked.leaks,
              " times something left behind");
}

}  // namespace anello::faults
