// Exceptions that end a rank: what the other ranks are sent. One that unwinds the stack destroys the World, and its
// text cannot be read then; the goodbye says that there was one. One that is not caught ends the process, and a
// terminate handler can read its text; it calls abort_all().
#include <exception>
#include <new>

#include "ring/world/world_impl.hpp"

namespace anello {

void World::Impl::note_exception() {
  if (control_ && std::uncaught_exceptions() > exceptions_) control_->leaves_by_exception();
}

// No world leaves meanwhile. Nothing is locked that the thread of the exception may hold.
void World::Impl::abort_all(std::string_view reason) {
  const std::lock_guard lock(alive().mutex);
  for (Impl* world : alive().worlds) {
    if (!world->control_) continue;
    try {
      world->abort(reason);
    } catch (const std::bad_alloc&) {
      world->control_->abort_without_memory();
    }
    world->control_->leave(0);
  }
}

void world::WorldMaker::abort_all(std::string_view reason) {
  World::Impl::abort_all(reason);
}

}  // namespace anello
