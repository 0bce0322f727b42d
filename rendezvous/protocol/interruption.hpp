// Ends the waits of init() before their limits, for example because the user has pressed Ctrl-C. All waits of the
// rendezvous check every kSlice whether the program has asked for this. Use an Interruption only on the thread that
// calls init().
#pragma once
#include <chrono>
#include <functional>

namespace anello::rendezvous {

// While an Interruption exists, `asked` may end the calling thread's waits: it is called every kSlice of a wait.
class Interruption {
 public:
  static constexpr std::chrono::milliseconds kSlice{50};

  explicit Interruption(std::function<bool()> asked);
  ~Interruption();
  Interruption(const Interruption&) = delete;
  Interruption& operator=(const Interruption&) = delete;

  // True if the waits are to end. False if this thread has no Interruption.
  static bool asked();
  // Throws Error{aborted} if asked().
  static void check();
  // Sleeps, and throws as check() does.
  static void sleep(std::chrono::milliseconds time);
  // Returns the part of a wait that may pass before the next check.
  static std::chrono::milliseconds slice(std::chrono::milliseconds wait);

 private:
  const std::function<bool()> asked_;
  const Interruption* const outer_;
};

}  // namespace anello::rendezvous
