// Waking a rank that sleeps: its bell is an eventfd, which the threads of its process and the peers it shares memory
// with have. Any thread.
#pragma once
#include <unistd.h>

#include <cstdint>

namespace anello {

inline void ring_bell(int descriptor) noexcept {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = write(descriptor, &one, sizeof one);  // full means that it rings already
}

}  // namespace anello
