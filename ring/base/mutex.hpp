// Mutexes that clang checks with -Wthread-safety (tests/clang.py): an attribute of a member names the mutex that guards
// it, and an attribute of a function names the mutex that its caller has locked. Other compilers see std::mutex and
// std::unique_lock without attributes.
#pragma once
#include <mutex>
#include <shared_mutex>

#ifdef __clang__
#define ANELLO_ATTRIBUTE(attribute) __attribute__((attribute))
#else
#define ANELLO_ATTRIBUTE(attribute)
#endif
#define ANELLO_GUARDED_BY(mutex) ANELLO_ATTRIBUTE(guarded_by(mutex))
#define ANELLO_REQUIRES(...) ANELLO_ATTRIBUTE(requires_capability(__VA_ARGS__))
#define ANELLO_ACQUIRE(...) ANELLO_ATTRIBUTE(acquire_capability(__VA_ARGS__))
#define ANELLO_RELEASE(...) ANELLO_ATTRIBUTE(release_capability(__VA_ARGS__))
// Marks a function that is correct although the analysis cannot see why. A comment at the function says why.
#define ANELLO_UNCHECKED ANELLO_ATTRIBUTE(no_thread_safety_analysis)

namespace anello {

class ANELLO_ATTRIBUTE(capability("mutex")) Mutex : public std::mutex {
 public:
  void lock() ANELLO_ACQUIRE() { std::mutex::lock(); }
  void unlock() ANELLO_RELEASE() { std::mutex::unlock(); }
};

// A lock of a mutex, with which a std::condition_variable can wait.
class ANELLO_ATTRIBUTE(scoped_lockable) MutexLock : public std::unique_lock<std::mutex> {
 public:
  explicit MutexLock(Mutex& mutex) ANELLO_ACQUIRE(mutex) : unique_lock(mutex) {}
  ~MutexLock() ANELLO_RELEASE() = default;
  void lock() ANELLO_ACQUIRE() { unique_lock::lock(); }
  void unlock() ANELLO_RELEASE() { unique_lock::unlock(); }
};

// Unlocks the mutex of a MutexLock for as long as this object exists.
class ANELLO_ATTRIBUTE(scoped_lockable) MutexUnlock {
 public:
  MutexUnlock(MutexLock& lock, Mutex& mutex) ANELLO_RELEASE(mutex) : lock_(lock) {
    (void)mutex;
    lock_.unlock();
  }
  ~MutexUnlock() ANELLO_ATTRIBUTE(release_generic_capability()) { lock_.lock(); }
  MutexUnlock(const MutexUnlock&) = delete;
  MutexUnlock& operator=(const MutexUnlock&) = delete;

 private:
  MutexLock& lock_;
};

class ANELLO_ATTRIBUTE(capability("mutex")) SharedMutex : public std::shared_mutex {
 public:
  void lock() ANELLO_ACQUIRE() { std::shared_mutex::lock(); }
  void unlock() ANELLO_RELEASE() { std::shared_mutex::unlock(); }
};

class ANELLO_ATTRIBUTE(scoped_lockable) WriterLock : public std::unique_lock<std::shared_mutex> {
 public:
  explicit WriterLock(SharedMutex& mutex) ANELLO_ACQUIRE(mutex) : unique_lock(mutex) {}
  ~WriterLock() ANELLO_RELEASE() = default;
};

class ANELLO_ATTRIBUTE(scoped_lockable) ReaderLock : public std::shared_lock<std::shared_mutex> {
 public:
  explicit ReaderLock(SharedMutex& mutex) ANELLO_ATTRIBUTE(acquire_shared_capability(mutex)) : shared_lock(mutex) {}
  ~ReaderLock() ANELLO_ATTRIBUTE(release_generic_capability()) = default;
};

}  // namespace anello
