// Runs world after world, each with a random fault. After each world, checks which resources are left. One thread.
#pragma once
#include <array>
#include <functional>

#include "tests/faults/trial.hpp"

namespace anello::faults {

struct Soaked {
  long worlds = 0, wrong = 0, leaks = 0;
  std::array<long, 5> faults{};  // by Fault
  long cuts = 0;
  std::uint64_t operations = 0;  // completed by surviving ranks
};

// Runs until the time is over. Calls `complain` with each wrong result and the seed of its trial.
Soaked soak(milliseconds time, std::uint64_t seed, const std::string& victim_program,
            const std::function<void(const std::string&)>& complain);
std::string describe(const Soaked& soaked);

}  // namespace anello::faults
