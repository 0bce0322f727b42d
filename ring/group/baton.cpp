#include "ring/group/baton.hpp"

namespace anello::group {

// Rings the bell, because the thread that has the baton may be asleep, and this caller wants the baton.
bool Baton::wait(Lock& lock, const Until& until) {
  wanted_++;
  waiting_++;
  bell_.ring();
  bool in_time = true;
  if (until)
    in_time = changed_.wait_until(lock, *until) == std::cv_status::no_timeout;
  else
    changed_.wait(lock);
  waiting_--;
  wanted_--;
  return in_time;
}

bool Baton::wait_for(Lock& lock, std::chrono::milliseconds limit, const std::atomic<bool>& done) {
  waiting_++;
  watching_++;
  const bool is_done = completed_.wait_for(lock, limit, [&] { return done.load(std::memory_order_relaxed); });
  watching_--;
  waiting_--;
  leave();
  return is_done;
}

void Baton::close() {
  closed_ = 1;
  wanted_++;
  bell_.ring();
}

void Baton::wait_until_free(Lock& lock) {
  waiting_++;
  changed_.wait(lock, [this] { return !held_; });
  waiting_--;
}

void Baton::wait_until_unused(Lock& lock) {
  changed_.wait(lock, [this] { return waiting_ == 0; });
}

}  // namespace anello::group
