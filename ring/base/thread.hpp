// The library's threads block all signals that other threads or processes can send. So the program's signal handlers
// run only on the program's own threads, and interrupt only the program's own system calls. Signals that a thread
// causes itself by a fault, such as SIGSEGV, are not blocked: if they were, the kernel would end the process at once,
// and the handler that reports crashes (of a sanitizer, or Python's faulthandler) would not run. SIGABRT is blocked,
// because other processes send it too; abort() unblocks SIGABRT before it raises the signal.
#pragma once
#include <signal.h>

#include <anello/error.hpp>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "ring/base/text.hpp"

namespace anello {

// While an object of this class exists, signals that others send do not reach the calling thread, or any thread that it
// starts.
class BlockedSignals {
 public:
  BlockedSignals() {
    sigset_t sent;
    sigfillset(&sent);
    for (const int caused : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS}) sigdelset(&sent, caused);
    pthread_sigmask(SIG_SETMASK, &sent, &before_);
  }
  ~BlockedSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

 private:
  sigset_t before_;
};

// `work`: the thread's purpose, for errors. If no thread can be started, throws Error{network}; then the caller's
// blocked signals are unchanged.
template <class Body>
std::thread quiet_thread(std::string_view work, Body body) try {
  const BlockedSignals blocked;
  return std::thread(std::move(body));
} catch (const std::system_error& error) {
  throw Error(ErrorCode::network,
              text("no thread for ", work, ": ", error.code().message(), "; is `ulimit -u` reached?"));
}

}  // namespace anello
