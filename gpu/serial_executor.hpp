// A thread that makes blocking calls one after another, in the order in which they were submitted. The submitting
// thread does not wait.
#pragma once
#include <condition_variable>
#include <deque>
#include <future>
#include <thread>
#include <utility>

#include "ring/base/mutex.hpp"
#include "ring/base/thread.hpp"

namespace anello::gpu {

template <class Result>
class SerialExecutor {
 public:
  SerialExecutor() : thread_(quiet_thread("calls on a GPU", [this] { work(); })) {}
  // Waits for the call that is running, and drops the calls that have not begun.
  ~SerialExecutor() {
    {
      const MutexLock lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }
  SerialExecutor(const SerialExecutor&) = delete;
  SerialExecutor& operator=(const SerialExecutor&) = delete;

  // Does not block. The future gets the result or exception of the call, or a broken promise if the call was dropped.
  template <class Call>
  std::future<Result> submit(Call call) {
    const MutexLock lock(mutex_);
    calls_.emplace_back(std::move(call));
    changed_.notify_one();
    return calls_.back().get_future();
  }

 private:
  void work() {
    for (MutexLock lock(mutex_);;) {
      changed_.wait(lock, [&]() ANELLO_REQUIRES(mutex_) { return stopping_ || !calls_.empty(); });
      if (stopping_) return;
      auto call = std::exchange(calls_.front(), {});
      calls_.pop_front();
      lock.unlock();
      call();
      lock.lock();
    }
  }

  Mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::packaged_task<Result()>> calls_ ANELLO_GUARDED_BY(mutex_);
  bool stopping_ ANELLO_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // the last member, because the thread uses the other members
};

}  // namespace anello::gpu
