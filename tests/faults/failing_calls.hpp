// Lets one call of the C library, or one allocation, fail in this process. A program that links this has the functions
// of failing_calls.def in place of the C library's, also for the engine in it. Any thread.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace anello::faults {

// The call of this name with this number fails with this error, and so do those after it, `times` calls in all.
struct FailingCall {
  std::string name;          // "new" is an allocation by operator new, "pthread_create" a new thread
  std::uint64_t number = 0;  // from 1, counted from arm()
  int error = 0;
  std::uint64_t times = 1;
};

// Begins to count calls. Those that are named fail.
void arm(const FailingCall& failing);
// The calls until now are counted no more.
void disarm();
// Calls `each` for every function that can fail: its name, and how often it was called while armed.
void for_each_call(const std::function<void(std::string_view name, std::uint64_t calls)>& each);

// Every name with each of its errors, in the table's order.
struct PossibleFailure {
  std::string_view name;
  int error;
};
void for_each_failure(const std::function<void(const PossibleFailure&)>& each);

}  // namespace anello::faults
