// A core and a clock for one waiting thread, so that the rules for waiting are tested independently of the machine.
// Reading the clock takes 100 ns, and a yield takes `yield_takes`. Only one such core may exist at a time.
#pragma once
#include <chrono>

#include "ring/link/core.hpp"

namespace anello::testing {

struct FakeCore {
  static inline link::Core::Time time{};
  static inline std::chrono::nanoseconds yield_takes{};
  static inline int yields = 0;

  explicit FakeCore(std::chrono::nanoseconds takes) {
    time = {};
    yield_takes = takes;
    yields = 0;
  }
  operator link::Core() const {
    return {[] { return time += std::chrono::nanoseconds(100); },
            [] {
              time += yield_takes;
              yields++;
            }};
  }
};

}  // namespace anello::testing
