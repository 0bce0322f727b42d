// Wakes a rank that sleeps. A bell is an eventfd: other threads of the process, and peers that share memory with it,
// can ring it.
#pragma once
#include <unistd.h>

#include <cstdint>

namespace anello::link {

// Any thread, and any process that has the descriptor.
inline void ring_bell(int descriptor) noexcept {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = write(descriptor, &one, sizeof one);  // fails only if it is ringing already
}

// ring() may be called on any thread, the other functions only on the thread that waits.
class Bell {
 public:
  Bell();  // throws Error{network} if no descriptor is left
  ~Bell() { close(descriptor_); }
  Bell(const Bell&) = delete;
  Bell& operator=(const Bell&) = delete;
  void ring() noexcept { ring_bell(descriptor_); }
  void hush() noexcept;  // forgets earlier rings
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_;
};

}  // namespace anello::link
