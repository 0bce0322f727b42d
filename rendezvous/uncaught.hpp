// Reports an exception that nothing catches, before the process ends.
#pragma once

namespace anello::rendezvous {

// Installs the terminate handler that anello/init.hpp describes. The handler is installed only once in a process. Any
// thread.
void handle_uncaught_exceptions();

}  // namespace anello::rendezvous
