// A job that starts and trains while strangers besiege it: what that costs it, and whether it noticed each of them.
#pragma once
#include <array>
#include <string>

#include "tests/faults/siege.hpp"

namespace anello::faults {

struct Job {
  std::string server;                // the program `anello`
  std::vector<std::string> command;  // of each rank; goes on until its input ends, or the siege has
  long of_each_kind = 0;             // strangers; 0: none
  long a_second = 0;
};

struct Outcome {
  std::string wrong;   // what did not go as it should; empty if all did
  double cpu_s = 0;    // of the server and all ranks
  double wall_s = 0;   //
  long max_kib = 0;    // of memory, the largest of them
  long grown_kib = 0;  // from the siege's first quarter to its end, the most of any
  std::array<long, kHostiles> made{};
  trace::RejectedConnections::Counts counted{};  // by the server and all ranks
};
Outcome carry_out(const Job& job);

// Every stranger counted by its kind? What is wrong, if not.
std::string miscounted(const Outcome& outcome);

}  // namespace anello::faults
