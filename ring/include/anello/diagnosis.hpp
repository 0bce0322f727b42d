// Records of a rank's work, for people and monitoring: its counters, and phases of the program for a timeline.
#pragma once
#include <anello/export.h>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

ANELLO_API_BEGIN
namespace anello {

namespace trace {
class Timeline;
}
class World;

// Totals of one rank since its world began, over all groups. Failed operations are not counted.
struct Counters {
  std::uint64_t operations = 0;            // completed operations
  std::uint64_t tensor_bytes = 0;          // bytes of each operation's input or output, of these two the larger one
  std::uint64_t sent_bytes = 0;            // bytes of elements as they were sent, without headers
  std::uint64_t received_bytes = 0;        // bytes of elements as they were received, without headers
  std::uint64_t waits = 0;                 // how often an operation slept because a peer was late
  std::uint64_t stalls = 0;                // how often an operation was reported because it made no progress
  std::uint64_t rejected_connections = 0;  // incoming connections that this rank refused
  std::chrono::nanoseconds busy{0};        // the time from the beginning to the end of each operation
  std::chrono::nanoseconds waited{0};      // the part of `busy` in which the operation slept
};

// A part of the program's own work. A timeline shows it beside the operations, from construction to destruction:
// `anello::Phase phase(world, "backward");`. Costs almost nothing while no timeline is recorded. It must end before its
// world. Any thread; never blocks.
class Phase {
 public:
  [[nodiscard]] Phase(const World& world, std::string_view name);
  ~Phase();
  Phase(const Phase&) = delete;
  Phase& operator=(const Phase&) = delete;

 private:
  trace::Timeline* timeline_;  // null: no timeline was recorded at construction
  std::string name_;
  std::uint64_t begin_ = 0;
};

}  // namespace anello
ANELLO_API_END
