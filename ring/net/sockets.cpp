#include "ring/net/sockets.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <anello/error.hpp>
#include <asio/ip/v6_only.hpp>
#include <asio/redirect_error.hpp>
#include <asio/use_awaitable.hpp>
#include <cerrno>

#include "ring/base/mutex.hpp"
#include "ring/base/text.hpp"
#include "ring/base/unshared_socket.hpp"
#include "ring/net/addresses.hpp"

namespace anello::net {

using asio::ip::tcp;

namespace {

asio::error_code last_error() {
  return {errno, asio::error::get_system_category()};
}

rlimit files_limit() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  return limit;
}

// Shared by all RaisedFilesLimit objects of the process, because they may end in any order.
struct RaisedLimit {
  Mutex mutex;
  int users ANELLO_GUARDED_BY(mutex) = 0;
  rlim_t before ANELLO_GUARDED_BY(mutex) = 0, raised ANELLO_GUARDED_BY(mutex) = 0;
};

RaisedLimit& raised_limit() {
  static RaisedLimit all;
  return all;
}

}  // namespace

template <class Socket>
void open_socket(Socket& socket, const tcp& protocol, asio::error_code& error) {
  Descriptor opened = unshared_socket(protocol.family(), protocol.type(), protocol.protocol());
  if (!opened) {
    error = last_error();
    return;
  }
  socket.assign(protocol, opened.get(), error);
  if (!error) opened.release();
}
template void open_socket(tcp::socket&, const tcp&, asio::error_code&);
template void open_socket(tcp::acceptor&, const tcp&, asio::error_code&);

asio::awaitable<void> connect(tcp::socket& socket, tcp::endpoint where, asio::error_code& error) {
  co_await socket.async_connect(where, asio::redirect_error(asio::use_awaitable, error));
  asio::error_code failure;
  if (error || socket.local_endpoint(failure) != where || failure) co_return;
  // Without this, the port would be in use for a minute.
  socket.set_option(asio::socket_base::linger(true, 0), failure);
  socket.close(failure);
  error = asio::error::connection_refused;
}

void listen(tcp::acceptor& acceptor, const tcp::endpoint& where) {
  try {
    asio::error_code failure;
    open_socket(acceptor, where.protocol(), failure);
    if (failure) throw asio::system_error(failure);
    acceptor.set_option(tcp::acceptor::reuse_address(true));
    if (where.address() == asio::ip::address_v6::any()) acceptor.set_option(asio::ip::v6_only(false));
    acceptor.bind(where);
    acceptor.listen();
  } catch (const asio::system_error& error) {
    throw Error(ErrorCode::network, text("cannot listen on ", host_port(where.address().to_string(), where.port()),
                                         ": ", error.code().message(), remedy_for_lack_of_files(error.code().value())));
  }
}

tcp::socket accept_socket(tcp::acceptor& acceptor, asio::error_code& error) {
  tcp::socket socket(acceptor.get_executor());
  sockaddr_storage peer{};
  socklen_t bytes = sizeof peer;
  Descriptor accepted = accept_unshared(acceptor.native_handle(), 0, reinterpret_cast<sockaddr*>(&peer), &bytes);
  if (!accepted) {
    error = last_error();
    return socket;
  }
  socket.assign(peer.ss_family == AF_INET6 ? tcp::v6() : tcp::v4(), accepted.get(), error);
  if (!error) accepted.release();
  return socket;
}

const char* any_address() {
  const Descriptor probe(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  return probe ? "::" : "0.0.0.0";
}

// With TCP_USER_TIMEOUT, the keepalive ends after a time and not after a number of probes (tcp(7)).
void end_if_cut_off(int socket, std::chrono::milliseconds limit) {
  const int yes = 1, idle_seconds = 1, between_seconds = 1;
  const auto timeout_ms = unsigned(limit.count());
  setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof yes);
  setsockopt(socket, IPPROTO_TCP, TCP_KEEPIDLE, &idle_seconds, sizeof idle_seconds);
  setsockopt(socket, IPPROTO_TCP, TCP_KEEPINTVL, &between_seconds, sizeof between_seconds);
  setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms, sizeof timeout_ms);
}

std::size_t free_descriptors() {
  const rlimit limit = files_limit();
  std::size_t used = 0;
  if (DIR* folder = opendir("/proc/self/fd")) {
    while (readdir(folder)) used++;
    closedir(folder);
  }
  return limit.rlim_cur > used ? std::size_t(limit.rlim_cur) - used : 0;
}

RaisedFilesLimit::RaisedFilesLimit() {
  RaisedLimit& all = raised_limit();
  const MutexLock lock(all.mutex);
  if (all.users++ > 0) return;
  rlimit limit = files_limit();
  all.before = limit.rlim_cur;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  all.raised = files_limit().rlim_cur;
}

// Restores the limit, unless the program has changed it meanwhile.
RaisedFilesLimit::~RaisedFilesLimit() {
  RaisedLimit& all = raised_limit();
  const MutexLock lock(all.mutex);
  rlimit limit = files_limit();
  if (--all.users > 0 || limit.rlim_cur != all.raised) return;
  limit.rlim_cur = all.before;
  setrlimit(RLIMIT_NOFILE, &limit);
}

bool SpareDescriptor::take() {
  if (!descriptor_) descriptor_ = Descriptor(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  return bool(descriptor_);
}

}  // namespace anello::net
