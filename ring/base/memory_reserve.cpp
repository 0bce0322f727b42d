#include "ring/base/memory_reserve.hpp"

#include <atomic>
#include <cstdlib>

namespace anello {
namespace {

// Malloc maps a block of this size separately. So after the block is freed, any thread can allocate the memory, in any
// sizes.
constexpr std::size_t kBytes = 1 << 20;
constinit std::atomic<void*> reserve{nullptr};

}  // namespace

void keep_memory_reserve() noexcept {
  void* const made = std::malloc(kBytes);
  void* none = nullptr;
  if (!reserve.compare_exchange_strong(none, made)) std::free(made);
}

void release_memory_reserve() noexcept {
  std::free(reserve.exchange(nullptr));
}

}  // namespace anello
