// One call of the C library that fails on one rank of a job of real processes, and the end of every rank. One thread.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "tests/faults/failing_calls.hpp"

namespace anello::faults {

inline constexpr const char* kPhases[] = {"start", "operations", "end"};

struct FailingTrial {
  std::string phase = "operations";  // one of kPhases
  std::string transport = "auto";
  FailingCall failing{.name = "none"};
  int ranks = 3, victim = 1;
};
std::string describe(const FailingTrial& trial);

// Counts how often the victim calls each function in the phase, if nothing fails.
std::map<std::string, std::uint64_t> count_calls(const FailingTrial& trial, const std::string& program);
// Returns a description of a wrong end. Empty if every rank has the right results, or every rank ends with an error
// that names the victim, and nothing hangs. Only the victim may crash, and only if it lacked memory or a thread,
// because some code cannot report such a lack. In the phase "end" the other ranks may be done before the victim fails.
std::string carry_out(const FailingTrial& trial, const std::string& program);

}  // namespace anello::faults
