#include "tests/support/faults.hpp"

#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <cerrno>
#include <new>
#include <utility>

#include "tests/support/operator_new.hpp"

namespace anello::faults {
namespace {

struct State {
  Plan plan;
  bool happened = false;
};
constinit thread_local State state;

constinit std::atomic<int> failing_of_others = 0;
constinit thread_local bool is_spared = false;

bool fails(std::int64_t& left) {
  if (left < 0) return false;
  if (left > 0) {
    left--;
    return false;
  }
  if (!state.plan.for_ever) left = -1;
  return state.happened = true;
}

}  // namespace

bool plan(const Plan& plan) {
  const bool happened = std::exchange(state.happened, false);
  state.plan = plan;
  return happened;
}

void fail_allocations_of_others(int count) {
  is_spared = true;
  failing_of_others = count;
}

}  // namespace anello::faults

void before_allocation(std::size_t bytes) {
  using namespace anello::faults;
  if (!is_spared && failing_of_others > 0 && failing_of_others.fetch_sub(1) > 0) throw std::bad_alloc();
  if (fails(state.plan.memory)) throw std::bad_alloc();
  if (bytes >= kLargeBytes && fails(state.plan.large_memory)) throw std::bad_alloc();
}

// Replaces the C library's function, which dlsym(RTLD_NEXT) finds.
extern "C" int pthread_create(pthread_t* made, const pthread_attr_t* how, void* (*body)(void*), void* value) noexcept {
  if (anello::faults::fails(anello::faults::state.plan.thread)) return EAGAIN;
  using Function = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static const auto original = reinterpret_cast<Function>(dlsym(RTLD_NEXT, "pthread_create"));
  return original(made, how, body, value);
}
