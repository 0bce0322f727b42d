#include "ring/net/context.hpp"

#include <anello/error.hpp>
#include <asio/steady_timer.hpp>
#include <asio/system_error.hpp>
#include <cerrno>
#include <string>
#include <system_error>

#include "ring/base/text.hpp"

namespace anello::net {
namespace {

[[noreturn]] void cannot_wait(int error) {
  const std::string remedy =
      error == ENOSPC ? "; the limit of this user's processes is in /proc/sys/fs/epoll/max_user_watches" : "";
  throw Error(ErrorCode::network,
              text("cannot wait for sockets and timers: ", std::generic_category().message(error), remedy));
}

}  // namespace

// When a system call fails in Asio's constructor, Asio does not report the failure, but sets errno. A successful
// allocation may set errno too. So a second try decides: it makes the same system calls again, without an allocation.
Context::Context() try : asio
  ::io_context(1) {
    errno = 0;
    const asio::steady_timer timer(*this);  // the first timer makes Asio prepare its timers
    if (errno == 0) return;
    errno = 0;
    notify_fork(fork_child);
    if (errno != 0) cannot_wait(errno);
  }
catch (const asio::system_error& error) {
  cannot_wait(error.code().value());
}

}  // namespace anello::net
