// Handles a process that calls exit() while its worlds are alive. The other ranks must not take the process for a rank
// that died. With exit status 0 each world sends a goodbye, as its destructor would. With any other status the program
// has failed, and its worlds are aborted. A child that fork() made has no worlds. An end by _exit(), quick_exit() or a
// signal counts as a death.
//
// Static objects may own a World, or call finish() in their destructors. So the goodbye comes after these destructors:
// its handler is registered before the objects are constructed. An abort comes before the destructors, because after a
// failure nothing should wait for other ranks. Both work without allocating memory, because memory may have run out.
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>

#include "ring/world/alive_worlds_impl.hpp"
#include "ring/world/world_impl.hpp"

namespace anello {
namespace {

std::atomic<bool> aborted{false};

__attribute__((constructor(101))) void register_goodbye() {
  std::atexit([] { world::WorldMaker::say_goodbye_to_all(); });
}

}  // namespace

// Registers with on_exit(), because only on_exit() passes the exit status.
void World::Impl::Alive::notice_exit() {
#ifdef __GLIBC__
  static const int registered = on_exit(
      [](int status, void*) {
        if (status == 0) return;
        aborted = true;
        std::array<char, 64> reason{};
        std::snprintf(reason.data(), reason.size(), "its program ended with status %d", status);
        abort_all(reason.data());
      },
      nullptr);
  (void)registered;
#endif
}

bool World::Impl::aborted_by_exit() {
  return aborted;
}

// Does not disturb a thread that is in an operation, because the operation's callbacks could do harm now. Groups leave
// from the last to the first: each group that leaves is removed from the list, and in this order no group is skipped.
void World::Impl::say_goodbye() noexcept {
  save_records();
  if (!control_) return;
  MutexLock lock(mutex_);
  std::size_t place = groups_.size();
  lock.unlock();
  while (place-- > 0)
    if (const auto group = group_at(place); group && group->idle()) group->leave();
  control_->leave(all_ranks_->completed());
}

void world::WorldMaker::say_goodbye_to_all() {
  if (!aborted) World::Impl::Alive::say_goodbye_to_all();
}

}  // namespace anello
