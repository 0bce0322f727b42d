// World after world, each with a fault drawn at random, and after each a look at what is left. One thread.
#pragma once
#include <array>
#include <functional>

#include "tests/faults/trial.hpp"

namespace anello::faults {

struct Soaked {
  long worlds = 0, wrong = 0, leaks = 0;
  std::array<long, 5> faults{};  // by Fault
  long cuts = 0;
  std::uint64_t operations = 0;  // of surviving ranks
};

// Until the time is over. `complain` is told what was not as promised, with the seed of the trial.
Soaked soak(milliseconds time, std::uint64_t seed, const std::string& victim_program,
            const std::function<void(const std::string&)>& complain);
std::string describe(const Soaked& soaked);

}  // namespace anello::faults
