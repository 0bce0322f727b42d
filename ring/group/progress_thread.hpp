// Moves the asynchronous operations of all groups of a rank, transfers included, on one thread, which starts with the
// first of them. A queue offers its work. The thread has the queue's baton while it moves the queue's data, and while
// it sleeps, which it does only when no operation can move; a caller who wants the baton wakes it. Callbacks run on it.
// Agendas of named operations are moved like queues.
// Any thread. Owned by the world and by its queues; knows neither links nor the control plane.
#pragma once
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "ring/link/bell.hpp"
#include "ring/link/waiter.hpp"
#include "ring/trace/ticks.hpp"

namespace anello::group {

// What the thread moves. Called by the thread only.
class Movable {
 public:
  virtual ~Movable() = default;
  // Moves what can be moved at once, and does not block, except in the callback of an operation that is then done.
  // `none`: there is no work, or a caller has or wants the baton; that caller offers what is left.
  enum class Progress { none, moved, stuck };
  virtual Progress progress() = 0;
  // Acquires the baton, gives the waiter what the work waits for, and shortens `limit`. False if it cannot, or if
  // something can be moved.
  virtual bool prepare_sleep(link::Waiter& waiter, std::chrono::milliseconds& limit) = 0;
  // After prepare_sleep() returned true: releases the baton.
  virtual void slept(trace::Ticks from) = 0;

 private:
  friend class ProgressThread;
  std::shared_ptr<Movable> next_offered_;  // guarded by the thread's mutex, as the next
  bool offered_ = false;
};

class ProgressThread {
 public:
  explicit ProgressThread(link::WaitPolicy policy, link::Core core = {});
  ~ProgressThread() { stop(); }
  ProgressThread(const ProgressThread&) = delete;
  ProgressThread& operator=(const ProgressThread&) = delete;

  // Throws Error{network} if no thread can be started. No effect if it runs, or after stop().
  void start();
  // The queue has an operation, and no thread has its baton. Does not block, and needs no memory.
  void offer(std::shared_ptr<Movable> queue) noexcept;
  // Blocks until the thread has ended. All queues are closed. Not from a callback.
  void stop();

 private:
  void run();
  bool take_offered();
  bool move();
  void sleep();
  bool may_sleep();

  link::Bell bell_;
  link::Waiter waiter_;                           // by the thread only, like the next line
  std::vector<std::shared_ptr<Movable>> active_;  // have work

  std::mutex mutex_;                        // guards what follows
  std::shared_ptr<Movable> first_offered_;  // each has the next
  Movable* last_offered_ = nullptr;
  bool sleeps_ = false, stopped_ = false;
  std::thread thread_;
};

}  // namespace anello::group
