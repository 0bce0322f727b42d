// An io_context that is proven to be able to wait. Asio ignores errors when it prepares to wait for timers and for
// other threads, and a context with such an error would sleep for ever. One thread runs the context; any thread may
// construct it.
#pragma once
#include <asio/io_context.hpp>

namespace anello::net {

class Context : public asio::io_context {
 public:
  // Throws Error{network} with the cause if a system call that the context needs for waiting fails.
  Context();
};

}  // namespace anello::net
