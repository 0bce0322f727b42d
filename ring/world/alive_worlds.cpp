// The list of the worlds of this process that are alive.
#include <atomic>
#include <memory>

#include "ring/world/world_impl.hpp"

namespace anello {

// Outlives static objects, one of which may be a World. A child that fork() made has a list of its own: the worlds
// belong to its parent, and the parent's mutex may be held by a thread that does not exist in the child.
World::Impl::Alive& World::Impl::alive() {
  static std::atomic<Alive*> newest = new Alive;
  Alive* own = newest;
  if (!own->process.in_child()) return *own;
  auto made = std::make_unique<Alive>();
  if (newest.compare_exchange_strong(own, made.get())) own = made.release();
  return *own;
}

void World::Impl::enlist() {
  notice_exit();
  const MutexLock lock(alive().mutex);
  alive().worlds.insert(this);
}
void World::Impl::delist() {
  const MutexLock lock(alive().mutex);
  alive().worlds.erase(this);
}

}  // namespace anello
