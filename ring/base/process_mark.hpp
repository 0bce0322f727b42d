// Records which process made an object, so that a child made by fork() does not use threads and locks of its parent.
// Makes no system call. Any thread.
#pragma once
#include <atomic>
#include <cstdint>

namespace anello {

class ProcessMark {
 public:
  ProcessMark();
  // True in a child (made by fork()) of the process that made this object.
  bool in_child() const { return forks_ != forks_so_far_.load(std::memory_order_relaxed); }

 private:
  static std::atomic<std::uint32_t> forks_so_far_;  // number of forks between the first process and this one
  std::uint32_t forks_;
};

}  // namespace anello
