#include "tests/support/faults.hpp"

#include <dlfcn.h>
#include <sys/mman.h>

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

}  // namespace anello::faults

void before_allocation() {
  if (anello::faults::fails(anello::faults::state.plan.memory)) throw std::bad_alloc();
}

// In place of libc's, which is found behind this one.
extern "C" int memfd_create(const char* name, unsigned flags) noexcept {
  if (anello::faults::fails(anello::faults::state.plan.descriptor)) {
    errno = EMFILE;
    return -1;
  }
  using Function = int (*)(const char*, unsigned);
  static const auto original = reinterpret_cast<Function>(dlsym(RTLD_NEXT, "memfd_create"));
  return original(name, flags);
}
