// A job that starts and trains during a siege of hostile connections: the cost of these connections, and whether the
// job counted each of them.
#pragma once
#include <array>
#include <string>

#include "tests/faults/siege.hpp"

namespace anello::faults {

struct Job {
  std::string server;                // the program `anello`
  std::vector<std::string> command;  // command of each rank, which ends with its input or with the siege
  long of_each_kind = 0;             // number of hostile connections of each kind
  long a_second = 0;
};

struct Outcome {
  std::string wrong;   // what went wrong; empty: nothing
  double cpu_s = 0;    // processor time of the server and all ranks together
  double wall_s = 0;   //
  long max_kib = 0;    // maximum memory of a process
  long grown_kib = 0;  // memory growth since the siege's first quarter, of the process that grew most
  std::array<long, kHostiles> made{};
  trace::RejectedConnections::Counts counted{};  // by the server and all ranks
};
Outcome carry_out(const Job& job);

// Checks that every hostile connection was counted by its kind. Returns a description of an error, or an empty text.
std::string miscounted(const Outcome& outcome);

}  // namespace anello::faults
