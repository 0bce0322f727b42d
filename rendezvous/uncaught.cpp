#include "rendezvous/uncaught.hpp"

#include <anello/error.hpp>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include "rendezvous/protocol/describe.hpp"
#include "ring/base/log.hpp"
#include "ring/base/memory_reserve.hpp"
#include "ring/base/mutex.hpp"
#include "ring/base/process_mark.hpp"
#include "ring/base/text.hpp"
#include "ring/world/bootstrap.hpp"

namespace anello::rendezvous {
namespace {

const std::terminate_handler by_default = std::get_terminate();
std::terminate_handler previous = nullptr;
std::atomic<ProcessMark> rank_process;  // the process that called init() last

struct Reason {
  std::string text;
  bool is_error = false;  // true for an Error or bad_alloc, whose text is enough, so that no core file is written
};

// Returns the message. If there is no memory for the message, returns a text that is short enough to need no
// allocation.
std::string out_of_memory() {
  release_memory_reserve();
  try {
    return as_error(std::bad_alloc()).message();
  } catch (const std::bad_alloc&) {
    return "out of memory";
  }
}

bool has_memory() {
  constexpr std::size_t kProbe = 1 << 16;
  const std::unique_ptr<char[]> probe(new (std::nothrow) char[kProbe]);
  return probe != nullptr;
}

// If there is no memory for an operation of a coroutine, Asio 1.22 ends the program without an exception.
Reason reason() {
  const std::exception_ptr current = std::current_exception();
  if (!current) return has_memory() ? Reason{"std::terminate was called"} : Reason{out_of_memory(), true};
  try {
    std::rethrow_exception(current);
  } catch (const Error& error) {
    return {error.what(), true};
  } catch (const std::bad_alloc&) {
    return {out_of_memory(), true};
  } catch (const std::exception& other) {
    return {text("uncaught exception: ", other.what())};
  } catch (...) {
    return {"uncaught exception of unknown type"};
  }
}

void abort_all_worlds(const std::string& why) {
  try {
    world::WorldMaker::abort_all(why);
  } catch (const std::bad_alloc&) {  // the list of worlds needs memory only in a process that never had a world
  }
}

void report(const std::string& error) {
  try {
    log(Severity::error, error);
  } catch (const std::bad_alloc&) {
    std::fputs("anello: error: out of memory\n", stderr);
  }
}

// If a second thread calls this function, it waits until the first thread has ended the process. A second call by the
// same thread means that this function itself has failed.
[[noreturn]] void end_process() {
  static thread_local bool ending = false;
  if (std::exchange(ending, true)) std::abort();
  // A child is not a rank, and its buffer of stdout may hold output of its parent.
  if (rank_process.load().in_child()) {
    previous();
    std::abort();
  }
  static Mutex once;
  once.lock();
  const Reason why = reason();
  abort_all_worlds(why.text);
  if (previous != by_default || !why.is_error) {
    previous();
    std::abort();
  }
  report(why.text);
  std::fflush(stdout);
  std::_Exit(1);
}

}  // namespace

void handle_uncaught_exceptions() {
  rank_process = ProcessMark();
  static const bool installed = [] {
    keep_memory_reserve();  // needed here, because a world of one rank makes no reserve
    previous = std::get_terminate();
    std::set_terminate(end_process);
    return true;
  }();
  (void)installed;
}

}  // namespace anello::rendezvous
