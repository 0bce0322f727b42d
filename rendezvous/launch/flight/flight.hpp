// `anello flight`: reads the flight recorder's files of all ranks. Reports the operations that some rank has not
// called, the ranks that wait for this rank, and the last operations of each rank.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace anello::launch {

// One rank's file (ring/trace/flight_file.hpp).
struct Flight {
  enum class State { queued, begun, done };
  struct Operation {
    std::uint64_t sequence = 0;
    std::string text;  // "allreduce #7 (sum of 100 f32)"
    std::string name;
    State state = State::queued;
    std::int64_t since_us = 0;  // when the operation entered this state
  };
  struct Group {
    std::string id, name;
    std::vector<int> members;
    std::vector<Operation> operations;  // oldest first
  };
  int rank = 0, size = 1;
  std::string host, job, why;
  std::string world;  // equal in the files of one world
  std::int64_t written_us = 0;
  std::vector<Group> groups;
};

// Parses one file. If its text has a mistake, throws Error{file} that describes it.
Flight parse_flight(std::string_view json);

// Finds the newest file in `folder` (of job `job`, unless `job` is empty), and reads all files of the same world. For
// each file that cannot be used, adds a sentence to `skipped`. Throws Error{file} if no file can be used.
std::vector<Flight> read_flights(const std::filesystem::path& folder, const std::string& job,
                                 std::vector<std::string>& skipped);

// Explains the files to people. `flights` must not be empty, and all of them must belong to one world.
std::string explain(const std::vector<Flight>& flights);

}  // namespace anello::launch
