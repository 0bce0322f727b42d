#include "tests/faults/failing_calls.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <new>

#include "tests/support/operator_new.hpp"

namespace anello::faults {
namespace {

enum class Call {
  allocation,
  thread,
#define CALL(result, name, failed, parameters, arguments, ...) name##_call,
#include "tests/faults/failing_calls.def"
#undef CALL
  count
};

constexpr std::array<std::string_view, std::size_t(Call::count)> kNames{
    "new",
    "pthread_create",
#define CALL(result, name, failed, parameters, arguments, ...) #name,
#include "tests/faults/failing_calls.def"
#undef CALL
};

// Initialised at compile time, because the functions below are called before main().
std::array<std::atomic<std::uint64_t>, std::size_t(Call::count)> calls{};
std::atomic<bool> armed = false;
std::size_t failing_call = std::size_t(Call::count);
std::uint64_t failing_number = 0, failing_times = 0;
int failing_error = 0;

// Returns the error with which this call must fail; 0: the call is carried out.
int failure_of(Call call) noexcept {
  if (!armed.load(std::memory_order_acquire)) return 0;
  const std::uint64_t number = ++calls[std::size_t(call)];
  return failing_call == std::size_t(call) && number - failing_number < failing_times ? failing_error : 0;
}

template <class Function>
Function* of_the_library(Function*, const char* name) noexcept {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

}  // namespace

void arm(const FailingCall& failing) {
  for (auto& each : calls) each = 0;
  failing_call = 0;
  while (failing_call < kNames.size() && kNames[failing_call] != failing.name) failing_call++;
  failing_number = failing.number;
  failing_times = failing.times;
  failing_error = failing.error;
  armed.store(true, std::memory_order_release);
}

void disarm() {
  armed = false;
}

void for_each_call(const std::function<void(std::string_view name, std::uint64_t calls)>& each) {
  for (std::size_t k = 0; k < kNames.size(); k++) each(kNames[k], calls[k]);
}

void for_each_failure(const std::function<void(const PossibleFailure&)>& each) {
  each({"new", ENOMEM});
  each({"pthread_create", EAGAIN});
#define CALL(result, name, failed, parameters, arguments, ...) \
  for (const int error : {__VA_ARGS__}) each({#name, error});
#include "tests/faults/failing_calls.def"
#undef CALL
}

}  // namespace anello::faults

using anello::faults::Call;
using anello::faults::failure_of;
using anello::faults::of_the_library;

#define CALL(result, name, failed, parameters, arguments, ...)   \
  extern "C" result name parameters {                            \
    static const auto original = of_the_library(&::name, #name); \
    if (const int error = failure_of(Call::name##_call)) {       \
      errno = error;                                             \
      return failed;                                             \
    }                                                            \
    return original arguments;                                   \
  }
#include "tests/faults/failing_calls.def"
#undef CALL

// pthread_create() returns its error instead of setting errno.
extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*body)(void*),
                              void* argument) noexcept {
  static const auto original = of_the_library(&::pthread_create, "pthread_create");
  const int error = failure_of(Call::thread);
  return error ? error : original(thread, attributes, body, argument);
}

void before_allocation(std::size_t) {
  if (failure_of(Call::allocation)) throw std::bad_alloc();
}
