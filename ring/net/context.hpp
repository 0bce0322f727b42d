// An io_context that is proven to be able to wait. One thread runs it. Asio ignores errors when it prepares to wait for
// timers and for other threads, and such a context would sleep for ever. Any thread may construct it.
#pragma once
#include <asio/io_context.hpp>

namespace anello::net {

class Context : public asio::io_context {
 public:
  // Throws Error{network} with the cause if a system call fails that the context needs for waiting.
  Context();
};

}  // namespace anello::net
