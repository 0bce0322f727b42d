// Exceptions that end a rank, and the messages about them to the other ranks. An exception that unwinds the stack
// destroys the World, when its text cannot be read any more; the goodbye then only says that there was an exception. An
// exception that is not caught ends the process; a terminate handler can read its text, and calls abort_all().
#include <exception>
#include <new>

#include "ring/world/world_impl.hpp"

namespace anello {

void World::Impl::note_exception() {
  if (control_ && std::uncaught_exceptions() > exceptions_) control_->leaves_by_exception();
}

// No world can leave meanwhile. Locks nothing that the thread of the exception may hold.
void World::Impl::abort_all(std::string_view reason) {
  const MutexLock lock(alive().mutex);
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
