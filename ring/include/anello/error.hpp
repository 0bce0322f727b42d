// The one exception of the library. Whatever goes wrong for a reason outside the program's own logic (input,
// environment, network, another rank) arrives as an anello::Error that names the culprit and, where there is one,
// the remedy. A broken invariant is not an error: it aborts.
#pragma once
#include <anello/export.h>
#include <exception>
#include <string>
#include <string_view>

ANELLO_API_BEGIN
namespace anello {

// Values are part of the wire protocol and of the C API: append only.
enum class ErrorCode : unsigned char {
  invalid_argument = 1,  // the caller's arguments
  configuration = 2,     // a setting, the environment, a command line
  unsupported = 3,       // not in this build, or not on this machine
  file = 4,              // a file that is missing, damaged or cannot be written
  network = 5,           // an address, a connection, a system call on a socket
  protocol = 6,          // bytes from outside that do not follow the protocol
  unauthorized = 7,      // the handshake was refused
  rendezvous = 8,        // the ranks did not come together
  mismatch = 9,          // ranks called different operations, or the same with different arguments
  rank_dead = 10,        // a rank's process ended without a goodbye
  rank_left = 11,        // a rank finished while others still needed it
  aborted = 12,          // a rank, or the launcher, ended the world on purpose
  timed_out = 13,        // a limit that was set ran out
  rank_silent = 14,      // a rank's process is stopped or hangs, or the network swallows what it says
  diverged = 15,         // what an operation leaves the same on all ranks was not the same (ANELLO_INTEGRITY)
  device = 16,           // a call on a GPU failed
};

std::string_view name(ErrorCode code);  // "rank_dead"

class Error : public std::exception {
 public:
  // `rank` is the culprit where one is known, -1 otherwise.
  Error(ErrorCode code, std::string message, int rank = -1);

  ErrorCode code() const noexcept { return code_; }
  int rank() const noexcept { return rank_; }
  const std::string& message() const noexcept { return message_; }
  // One line: the contexts, outermost first, then the message.
  const char* what() const noexcept override { return what_.c_str(); }

  // Says what was being attempted; layers add theirs while the exception passes: `catch (Error& e) { throw
  // e.within("joining"); }`
  Error& within(std::string_view attempt);

 private:
  ErrorCode code_;
  int rank_;
  std::string message_, what_;
};

}  // namespace anello
ANELLO_API_END
