// Exceptions that end a rank: what the other ranks are sent. One that unwinds the stack destroys the World, and its
// text cannot be read then; the goodbye says that there was one. One that is not caught ends the process, and a
// terminate handler can read its text; it calls abort_all().
#include <atomic>
#include <exception>
#include <memory>
#include <set>

#include "ring/base/text.hpp"
#include "ring/world/world_impl.hpp"

namespace anello {

// The worlds of this process that have started and have not left.
struct World::Impl::Alive {
  const ProcessMark process;
  std::mutex mutex;
  std::set<Impl*> worlds;
};
// Outlives static objects, one of which may be a World. A child that fork() made has a list of its own: the worlds are
// its parent's, and a thread that does not exist in the child may have the parent's mutex.
World::Impl::Alive& World::Impl::alive() {
  static std::atomic<Alive*> newest = new Alive;
  Alive* own = newest;
  if (!own->process.in_child()) return *own;
  auto made = std::make_unique<Alive>();
  if (newest.compare_exchange_strong(own, made.get())) own = made.release();
  return *own;
}

void World::Impl::enlist() {
  const std::lock_guard lock(alive().mutex);
  alive().worlds.insert(this);
}
void World::Impl::delist() {
  const std::lock_guard lock(alive().mutex);
  alive().worlds.erase(this);
}

void World::Impl::note_exception() {
  if (control_ && std::uncaught_exceptions() > exceptions_) control_->leaves_by_exception();
}

// No world leaves meanwhile. Nothing is locked that the thread of the exception may hold.
void World::Impl::abort_all(std::string_view reason) {
  const std::lock_guard lock(alive().mutex);
  for (Impl* world : alive().worlds) {
    if (!world->control_) continue;
    world->abort(reason);
    world->control_->leave(0);
  }
}

void world::WorldMaker::abort_all(std::string_view reason) {
  World::Impl::abort_all(reason);
}

}  // namespace anello
