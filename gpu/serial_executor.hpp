// A thread that makes calls that block, one after the other, for a caller who goes on meanwhile.
#pragma once
#include <condition_variable>
#include <deque>
#include <future>
#include <mutex>
#include <thread>
#include <utility>

#include "ring/base/thread.hpp"

namespace anello::gpu {

template <class Result>
class SerialExecutor {
 public:
  SerialExecutor() : thread_(quiet_thread([this] { work(); })) {}
  // Waits for the call that has begun; those that have not are dropped.
  ~SerialExecutor() {
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }
  SerialExecutor(const SerialExecutor&) = delete;
  SerialExecutor& operator=(const SerialExecutor&) = delete;

  // What the call returns, or throws.
  template <class Call>
  std::future<Result> take(Call call) {
    const std::lock_guard lock(mutex_);
    calls_.emplace_back(std::move(call));
    changed_.notify_one();
    return calls_.back().get_future();
  }

 private:
  void work() {
    for (std::unique_lock lock(mutex_);;) {
      changed_.wait(lock, [&] { return over_ || !calls_.empty(); });
      if (over_) return;
      auto call = std::exchange(calls_.front(), {});
      calls_.pop_front();
      lock.unlock();
      call();
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::packaged_task<Result()>> calls_;
  bool over_ = false;
  std::thread thread_;  // the last: it uses the others
};

}  // namespace anello::gpu
