// The baton, with several threads: only one thread has the baton at a time, callers get it before the progress thread,
// and close() ends every wait.
#include "ring/group/baton.hpp"

#include <gmock/gmock.h>
#include <poll.h>
#include <sys/resource.h>

#include <thread>
#include <vector>

namespace anello::group {
namespace {

using std::chrono::milliseconds;

// The parts of a queue that a baton needs: the mutex, and an operation, which is done at some time.
struct Shared {
  link::Bell bell;
  Mutex mutex;
  Baton baton{bell};
  std::atomic<bool> done = false;

  void finish() {
    const Baton::Lock lock(mutex);
    done = true;
    baton.announce();
  }
  void wait_until_wanted() {
    for (bool wanted = false; !wanted; std::this_thread::sleep_for(milliseconds(1))) {
      const Baton::Lock lock(mutex);
      wanted = baton.wanted();
    }
  }
  bool rings(int limit_ms) const {
    pollfd polled{bell.descriptor(), POLLIN, 0};
    return poll(&polled, 1, limit_ms) == 1;
  }
};

// Acts like the thread that has the baton, without the lock.
void wait_for_nonzero(const std::atomic<int>& value) {
  while (value == 0) std::this_thread::sleep_for(milliseconds(1));
}

TEST(Baton, ACallerGetsAFreeBatonAtOnceAndNoneWhenItsOperationIsDone) {
  Shared shared;
  Baton::Lock lock(shared.mutex);
  EXPECT_TRUE(shared.baton.acquire(lock, shared.done));
  EXPECT_FALSE(shared.baton.wanted());
  shared.baton.release();
  EXPECT_TRUE(shared.baton.acquire(lock, shared.done)) << "it was released";
  shared.baton.release();
  shared.done = true;
  EXPECT_FALSE(shared.baton.acquire(lock, shared.done));
  EXPECT_FALSE(shared.rings(0)) << "nobody had to be woken";
}

TEST(Baton, OneThreadHasItAtATime) {
  constexpr int kThreads = 4, kTimes = 500;
  Shared shared;
  int moved = 0;  // changed by the thread that has the baton, without the lock
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; t++)
    threads.emplace_back([&] {
      for (int k = 0; k < kTimes; k++) {
        Baton::Lock lock(shared.mutex);
        ASSERT_TRUE(shared.baton.acquire(lock, shared.done));
        lock.unlock();
        const int before = moved;
        std::this_thread::yield();
        moved = before + 1;
        lock.lock();
        shared.baton.release();
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(moved, kThreads * kTimes);
}

TEST(Baton, TheProgressThreadYieldsToACaller) {
  Shared shared;
  std::atomic<bool> caller_has_it = false;
  Baton::Lock lock(shared.mutex);
  ASSERT_TRUE(shared.baton.try_acquire()) << "it is free";
  std::thread caller([&] {
    Baton::Lock theirs(shared.mutex);
    ASSERT_TRUE(shared.baton.acquire(theirs, shared.done));
    EXPECT_FALSE(shared.baton.try_acquire()) << "the caller has it";
    caller_has_it = true;
    shared.baton.release();
  });
  lock.unlock();
  shared.wait_until_wanted();
  EXPECT_TRUE(shared.rings(0)) << "the progress thread could have been asleep";
  lock.lock();
  shared.baton.release();
  EXPECT_TRUE(caller_has_it || !shared.baton.try_acquire()) << "the caller wants it";
  lock.unlock();
  caller.join();
  lock.lock();
  EXPECT_TRUE(shared.baton.try_acquire());
  shared.baton.release();
  shared.baton.close();
  EXPECT_FALSE(shared.baton.try_acquire());
}

TEST(Baton, ACallerWhoseOperationAnotherThreadCompletesDoesNotGetIt) {
  Shared shared;
  Baton::Lock lock(shared.mutex);
  ASSERT_TRUE(shared.baton.acquire(lock, shared.done));
  std::thread other([&] {
    Baton::Lock theirs(shared.mutex);
    EXPECT_FALSE(shared.baton.acquire(theirs, shared.done));
  });
  lock.unlock();
  shared.wait_until_wanted();
  shared.finish();
  other.join();
  EXPECT_FALSE(shared.baton.wanted());
}

TEST(Baton, WaitingWithALimitDoesNotTakeIt) {
  Shared shared;
  Baton::Lock lock(shared.mutex);
  EXPECT_FALSE(shared.baton.wait_for(lock, milliseconds(10), shared.done));
  EXPECT_FALSE(shared.baton.wanted());
  lock.unlock();
  std::thread other([&] { shared.finish(); });
  lock.lock();
  EXPECT_TRUE(shared.baton.wait_for(lock, milliseconds(10'000), shared.done));
  lock.unlock();
  other.join();
}

// The progress thread releases the baton in each of its rounds. If each release woke the waiting thread, it would take
// the core and the mutex from the progress thread.
TEST(Baton, AThreadThatWaitsWithALimitIsNotWokenByEachRelease) {
  constexpr int kRounds = 200;
  Shared shared;
  std::atomic<bool> waits = false;
  std::thread other([&] {
    const auto sleeps = [] {
      rusage used{};
      getrusage(RUSAGE_THREAD, &used);
      return used.ru_nvcsw;
    };
    Baton::Lock lock(shared.mutex);
    waits = true;
    const long before = sleeps();
    EXPECT_TRUE(shared.baton.wait_for(lock, milliseconds(60'000), shared.done));
    EXPECT_LT(sleeps() - before, kRounds / 10);
  });
  while (!waits) std::this_thread::yield();
  for (int round = 0; round < kRounds; round++) {
    {
      const Baton::Lock lock(shared.mutex);
      EXPECT_TRUE(shared.baton.try_acquire());
      shared.baton.release();
    }
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  shared.finish();
  other.join();
}

TEST(Baton, CloseAsksForItAndWaitsUntilNoThreadUsesIt) {
  Shared shared;
  std::atomic<bool> has_it = false, other_is_back = false;
  std::thread holder([&] {
    Baton::Lock lock(shared.mutex);
    ASSERT_TRUE(shared.baton.acquire(lock, shared.done));
    lock.unlock();
    has_it = true;
    wait_for_nonzero(shared.baton.closed());
    lock.lock();
    shared.baton.release();
    EXPECT_FALSE(shared.baton.acquire(lock, shared.done)) << "it was closed";
  });
  while (!has_it) std::this_thread::yield();
  std::thread other([&] {
    Baton::Lock lock(shared.mutex);
    EXPECT_FALSE(shared.baton.acquire(lock, shared.done));
    other_is_back = true;
  });
  shared.wait_until_wanted();
  Baton::Lock lock(shared.mutex);
  shared.baton.close();
  shared.baton.wait_until_free(lock);
  EXPECT_FALSE(other_is_back);
  lock.unlock();
  shared.finish();
  lock.lock();
  shared.baton.wait_until_unused(lock);
  EXPECT_TRUE(other_is_back);
  lock.unlock();
  holder.join();
  other.join();
}

}  // namespace
}  // namespace anello::group
