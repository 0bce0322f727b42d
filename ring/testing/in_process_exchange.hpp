// Exchanges blobs between threads that are the ranks of a world in one process. This replaces the rendezvous for such a
// world. Any thread.
#pragma once
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <string>
#include <vector>

#include "ring/base/mutex.hpp"

namespace anello {

class InProcessExchange {
 public:
  InProcessExchange(int ranks, std::chrono::milliseconds limit) : limit_(limit), blobs_(std::size_t(ranks)) {}

  // Like bootstrap.hpp's Exchange, for `rank`. Throws Error{rendezvous} after the limit, or after close() was called.
  std::vector<std::string> exchange(int rank, std::string blob);

  void check(std::chrono::milliseconds limit);  // throws Error{rendezvous} if close() is called within that time

  // Call when a rank has failed. All waiting calls throw, and so do all later calls.
  void close();

 private:
  std::chrono::milliseconds limit_;
  Mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> blobs_ ANELLO_GUARDED_BY(mutex_), complete_ ANELLO_GUARDED_BY(mutex_);
  std::size_t arrived_ ANELLO_GUARDED_BY(mutex_) = 0;
  std::uint64_t round_ ANELLO_GUARDED_BY(mutex_) = 0;
  bool closed_ ANELLO_GUARDED_BY(mutex_) = false;
};

}  // namespace anello
