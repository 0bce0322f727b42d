// One fault in a world of real processes, and the end of every rank. One thread.
#pragma once
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/random.hpp"

namespace anello::faults {

using std::chrono::milliseconds;

// The shortest ANELLO_SILENCE_LIMIT within which healthy ranks answer, and the time by which an error may be late.
inline constexpr milliseconds kShortLimit{kSlowdown > 1 ? 3000 : 1000}, kSoon{1000 * kSlowdown};

enum class Fault {
  none,
  server,  // the rendezvous is closed when the world has formed
  kill,    // SIGKILL
  stop,    // SIGSTOP, and SIGCONT when the others have received the error
  pause,   // SIGSTOP, and SIGCONT within the limit
};
// The activity of the ranks at the time of the fault: one of the habits of victim.cpp, or the start.
enum class Moment { start, busy, small, pausing, parent, groups, late, forking, worker, unread, departing, ending };
inline constexpr Moment kMoments[] = {Moment::start,  Moment::busy,   Moment::small,     Moment::pausing,
                                      Moment::parent, Moment::groups, Moment::late,      Moment::forking,
                                      Moment::worker, Moment::unread, Moment::departing, Moment::ending};

std::string_view name(Fault fault);
std::string_view name(Moment moment);

struct Trial {
  Fault fault = Fault::kill;
  Moment moment = Moment::busy;
  int ranks = 4, victim = 0;
  milliseconds delay{0};  // after all ranks were ready; for `start`: after the last rank was started
  std::string transport = "auto";
  milliseconds silence_limit{3000};
  std::vector<int> leaving = {};  // for `departing`: the ranks that leave in good order when all were ready
};
Trial any_trial(Fault fault, std::uint64_t seed);
std::string describe(const Trial& trial);

struct Result {
  std::string wrong;                   // a description of wrong results; empty if there were none
  std::optional<milliseconds> latest;  // from the fault until the last survivor received the error
  std::uint64_t operations = 0;        // number of right operations of all survivors together
  // True if a rank received an error. If the fault comes in the world's last moments, the world may end in good order
  // instead.
  bool told = false;
};
Result carry_out(const Trial& trial, const std::string& victim_program);

}  // namespace anello::faults
