#include "ring/base/process_mark.hpp"

#include <pthread.h>

namespace anello {

std::atomic<std::uint32_t> ProcessMark::forks_so_far_ = 0;

ProcessMark::ProcessMark() {
  [[maybe_unused]] static const int registered = pthread_atfork(nullptr, nullptr, [] { forks_so_far_++; });
  forks_ = forks_so_far_;
}

}  // namespace anello
