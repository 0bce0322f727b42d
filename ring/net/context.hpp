// An io_context that has been checked to be able to wait, for one thread that runs it. Asio ignores errors when it
// prepares to wait for timers and for other threads; such a context would sleep for ever. Any thread may construct it.
#pragma once
#include <asio/io_context.hpp>

namespace anello::net {

class Context : public asio::io_context {
 public:
  // Throws Error{network} with the cause if the system refuses what the context needs to wait.
  Context();
};

}  // namespace anello::net
