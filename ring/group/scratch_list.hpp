// Memory for the lists that a call needs. A later call on the same thread reuses this memory.
#pragma once
#include <new>
#include <utility>
#include <vector>

namespace anello::group {

// A list whose memory a later call on the same thread reuses. Calls can be nested: a thread that waits may run the
// callback of another operation, and the callback may submit work.
template <class T>
class ScratchList {
 public:
  ScratchList() {
    if (spare.empty()) return;
    list_ = std::move(spare.back());
    spare.pop_back();
  }
  ~ScratchList() {
    try {
      spare.push_back(std::move(list_));
    } catch (const std::bad_alloc&) {  // the list is not kept, so the next call allocates a new one
    }
  }
  ScratchList(const ScratchList&) = delete;
  ScratchList& operator=(const ScratchList&) = delete;
  operator std::vector<T>&() { return list_; }

 private:
  static thread_local std::vector<std::vector<T>> spare;
  std::vector<T> list_;
};
template <class T>
thread_local std::vector<std::vector<T>> ScratchList<T>::spare;

}  // namespace anello::group
