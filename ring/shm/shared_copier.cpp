#include "ring/shm/shared_copier.hpp"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace anello::shm {
namespace {

constexpr std::size_t kLine = 64;

// Copies a whole cache line to an aligned address.
void copy_line_past_caches(std::byte* to, const std::byte* from) {
#if defined(__x86_64__)
  for (std::size_t k = 0; k < kLine; k += sizeof(__m128i))
    _mm_stream_si128(reinterpret_cast<__m128i*>(to + k), _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + k)));
#else
  std::memcpy(to, from, kLine);
#endif
}

// Other threads may see the stores above after later stores of this thread, unless this function is called between.
void make_visible() {
#if defined(__x86_64__)
  _mm_sfence();
#endif
}

void copy_past_caches(std::byte* to, const std::byte* from, std::size_t bytes) {
  const std::size_t head = std::min(bytes, -reinterpret_cast<std::uintptr_t>(to) % kLine);
  std::memcpy(to, from, head);
  std::size_t at = head;
  for (; at + kLine <= bytes; at += kLine) copy_line_past_caches(to + at, from + at);
  std::memcpy(to + at, from + at, bytes - at);
  make_visible();
}

}  // namespace

void StoreChoice::measured(std::size_t bytes, std::chrono::nanoseconds took) {
  constexpr std::int64_t kSlowestBytesPerNs = 3;
  const bool is_slow = std::int64_t(bytes) < kSlowestBytesPerNs * took.count();
  slow_ = is_slow ? std::min(slow_ + 1, kEnoughSlow) : 0;
  unmeasured_ = slow_ == 0 ? kCopiesPerMeasurement : non_temporal() ? kCopiesPerTest : 0;
}

void SharedCopier::copy(std::byte* to, const std::byte* from, std::size_t bytes) {
  if (bytes >= kMeasuredBytes && choice_.measures()) {
    const auto began = now_();
    std::memcpy(to, from, kMeasuredBytes);
    std::atomic_thread_fence(std::memory_order_seq_cst);  // waits until the stores have been made
    choice_.measured(kMeasuredBytes, now_() - began);
    to += kMeasuredBytes;
    from += kMeasuredBytes;
    bytes -= kMeasuredBytes;
  }
  if (choice_.non_temporal())
    copy_past_caches(to, from, bytes);
  else
    std::memcpy(to, from, bytes);
}

}  // namespace anello::shm
