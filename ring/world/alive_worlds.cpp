#include "ring/world/alive_worlds_impl.hpp"

#include <atomic>
#include <memory>
#include <new>

namespace anello {

// Outlives static objects, because one of them may be a World. A child that fork() made has its own, empty list: the
// worlds in the old list belong to its parent, and a thread that does not exist in the child may hold the old list's
// mutex.
World::Impl::Alive& World::Impl::Alive::of_this_process() {
  static std::atomic<Alive*> newest = new Alive;
  Alive* own = newest;
  if (!own->process_.in_child()) return *own;
  auto made = std::make_unique<Alive>();
  if (newest.compare_exchange_strong(own, made.get())) own = made.release();
  return *own;
}

void World::Impl::Alive::add(Impl& world) {
  notice_exit();
  Alive& alive = of_this_process();
  const MutexLock lock(alive.mutex_);
  alive.worlds_.insert(&world);
}

void World::Impl::Alive::remove(Impl& world) {
  Alive& alive = of_this_process();
  const MutexLock lock(alive.mutex_);
  alive.worlds_.erase(&world);
}

void World::Impl::Alive::abort_all(std::string_view reason) {
  Alive& alive = of_this_process();
  const MutexLock lock(alive.mutex_);
  for (Impl* world : alive.worlds_) {
    if (!world->control_) continue;
    try {
      world->abort(reason);
    } catch (const std::bad_alloc&) {
      world->control_->abort_without_memory();
    }
    world->control_->leave(0);
  }
}

void World::Impl::Alive::say_goodbye_to_all() noexcept {
  Alive& alive = of_this_process();
  const MutexLock lock(alive.mutex_);
  for (Impl* world : alive.worlds_) world->say_goodbye();
}

}  // namespace anello
