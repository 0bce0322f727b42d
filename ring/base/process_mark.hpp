// Records the process that made an object, so that a child made by fork() does not touch what belongs to its parent.
// Makes no system call. Any thread.
#pragma once
#include <atomic>
#include <cstdint>

namespace anello {

class ProcessMark {
 public:
  ProcessMark();
  // True in a child of the process that made this.
  bool in_child() const { return forks_ != forks_so_far_.load(std::memory_order_relaxed); }

 private:
  static std::atomic<std::uint32_t> forks_so_far_;  // how many forks lie between the first process and this one
  std::uint32_t forks_;
};

}  // namespace anello
