// The only exception of the library. Everything that goes wrong for a reason outside the program's own logic (input,
// environment, network, another rank) is thrown as an anello::Error, which names the culprit and, if there is one, the
// remedy. A broken invariant of the library is a bug and aborts the process. Objects are values; any thread.
#pragma once
#include <anello/export.h>
#include <exception>
#include <string>
#include <string_view>

ANELLO_API_BEGIN
namespace anello {

// The values are part of the wire protocol and of the C API: only append.
enum class ErrorCode : unsigned char {
  invalid_argument = 1,  // an argument of the call is wrong
  configuration = 2,     // a setting, the environment or a command line is wrong
  unsupported = 3,       // this build or this machine does not support the request
  file = 4,              // a file is missing or damaged, or cannot be written
  network = 5,           // an address, a connection or a system call on a socket failed
  protocol = 6,          // received bytes do not follow the protocol
  unauthorized = 7,      // the handshake was refused: the secrets differ
  rendezvous = 8,        // the ranks did not come together at start
  mismatch = 9,          // ranks called different operations, or the same one with different arguments
  rank_dead = 10,        // a rank's process ended without finish()
  rank_left = 11,        // a rank left the world while others still needed it
  aborted = 12,          // a rank or the launcher called abort
  timed_out = 13,        // a time limit was exceeded
  rank_silent = 14,      // a rank's process is stopped or hangs, or its network is cut
  diverged = 15,         // ranks have different results of the same operation (ANELLO_INTEGRITY)
  device = 16,           // a call on a GPU failed
};

std::string_view name(ErrorCode code);  // for example "rank_dead"

class Error : public std::exception {
 public:
  // `rank`: the rank at fault; -1 if there is none, or it cannot be determined.
  Error(ErrorCode code, std::string message, int rank = -1);

  ErrorCode code() const noexcept { return code_; }
  // The rank at fault; -1 if there is none, or it cannot be determined. After a mismatch: if more than half of the
  // group's ranks made the same call, the lowest rank that made a different call. If no call has such a majority, for
  // example in a group of two ranks, it cannot be determined which rank is wrong: then rank() is -1, and the message
  // names all calls.
  int rank() const noexcept { return rank_; }
  const std::string& message() const noexcept { return message_; }  // one line, without the contexts that within() adds
  // The contexts that within() added, the last one first, and then the message.
  const char* what() const noexcept override { return what_.c_str(); }

  // Adds a context: a description of the attempt that failed: `catch (Error& e) { throw e.within("joining"); }`.
  Error& within(std::string_view attempt);

 private:
  ErrorCode code_;
  int rank_;
  std::string message_, what_;
};

}  // namespace anello
ANELLO_API_END
