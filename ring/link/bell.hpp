// Wakes a rank that sleeps. A bell is an eventfd. Other threads of the process can ring it, and so can the peers that
// received its descriptor.
#pragma once
#include <unistd.h>

#include <cstdint>

namespace anello::link {

// Rings the bell. Any thread, and any process that has the descriptor, may call this.
inline void ring_bell(int descriptor) noexcept {
  const std::uint64_t one = 1;
  // Fails only if the counter is full; then the bell rings already.
  [[maybe_unused]] const auto written = write(descriptor, &one, sizeof one);
}

// ring() may be called on any thread, the other functions only on the thread that waits.
class Bell {
 public:
  Bell();  // throws Error{network} if no descriptor is left
  ~Bell() { close(descriptor_); }
  Bell(const Bell&) = delete;
  Bell& operator=(const Bell&) = delete;
  void ring() noexcept { ring_bell(descriptor_); }
  void hush() noexcept;  // drops the rings that have come so far
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_;
};

}  // namespace anello::link
