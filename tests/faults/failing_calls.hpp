// Lets one call of the C library, or one allocation, fail in this process. In a program that links this, the functions
// of failing_calls.def replace those of the C library, also for the engine in it. Any thread.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace anello::faults {

// The call with this number fails with `error`, and so do the calls after it: `times` calls in all.
struct FailingCall {
  std::string name;          // "new" is an allocation by operator new, "pthread_create" a new thread
  std::uint64_t number = 0;  // from 1, counted from arm()
  int error = 0;
  std::uint64_t times = 1;
};

// Starts to count calls. The calls given by `failing` fail.
void arm(const FailingCall& failing);
// Stops to count calls.
void disarm();
// Calls `each` for every function that can fail, with its name and how often it was called while armed.
void for_each_call(const std::function<void(std::string_view name, std::uint64_t calls)>& each);

// A name with one of its errors. The list has every such pair, in the order of the table.
struct PossibleFailure {
  std::string_view name;
  int error;
};
void for_each_failure(const std::function<void(const PossibleFailure&)>& each);

}  // namespace anello::faults
