// What a rank has done, for people who look: counters, and phases of the program's own in a timeline.
#pragma once
#include <anello/export.h>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

ANELLO_API_BEGIN
namespace anello {

class Timeline;
class World;

// Of one rank since its world began, over all groups. Failed operations are not counted.
struct Counters {
  std::uint64_t operations = 0;
  std::uint64_t tensor_bytes = 0;                    // of the larger of input and output
  std::uint64_t sent_bytes = 0, received_bytes = 0;  // of elements, as they travelled
  std::uint64_t waits = 0;                           // times that an operation slept until a peer had gone on
  std::uint64_t stalls = 0;                          // reports of operations that did not get on
  std::uint64_t rejected_connections = 0;            // connections to this rank that were turned away
  std::chrono::nanoseconds busy{0};                  // from the beginning to the end of each operation
  std::chrono::nanoseconds waited{0};                // slept
};

// A stretch of the program's own time, from construction to destruction, that a timeline shows beside the operations:
// anello::Phase phase(world, "backward"). Costs nothing while no timeline is on. Ends before its world. Any thread.
class Phase {
 public:
  Phase(const World& world, std::string_view name);
  ~Phase();
  Phase(const Phase&) = delete;
  Phase& operator=(const Phase&) = delete;

 private:
  Timeline* timeline_;  // null: none was on
  std::string name_;
  std::uint64_t begin_ = 0;
};

}  // namespace anello
ANELLO_API_END
