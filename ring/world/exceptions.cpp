// Exceptions that end a rank, and the messages about them to the other ranks. An exception that unwinds the stack
// destroys the World. At that time the exception's text cannot be read, so the goodbye only says that there was an
// exception. An exception that is not caught ends the process. A terminate handler can read its text, and calls
// abort_all().
#include <exception>

#include "ring/world/alive_worlds_impl.hpp"
#include "ring/world/world_impl.hpp"

namespace anello {

void World::Impl::note_exception() {
  if (control_ && std::uncaught_exceptions() > exceptions_) control_->leaves_by_exception();
}

void world::WorldMaker::abort_all(std::string_view reason) {
  World::Impl::Alive::abort_all(reason);
}

}  // namespace anello
