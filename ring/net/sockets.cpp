#include "ring/net/sockets.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <cerrno>

namespace anello::net {

using asio::ip::tcp;

namespace {

asio::error_code last_error() {
  return {errno, asio::error::get_system_category()};
}

}  // namespace

template <class Socket>
void open_socket(Socket& socket, const tcp& protocol, asio::error_code& error) {
  Descriptor opened(::socket(protocol.family(), protocol.type() | SOCK_CLOEXEC, protocol.protocol()));
  if (!opened) {
    error = last_error();
    return;
  }
  socket.assign(protocol, opened.get(), error);
  if (!error) opened.release();
}
template void open_socket(tcp::socket&, const tcp&, asio::error_code&);
template void open_socket(tcp::acceptor&, const tcp&, asio::error_code&);

tcp::socket accept_socket(tcp::acceptor& acceptor, asio::error_code& error) {
  tcp::socket socket(acceptor.get_executor());
  sockaddr_storage peer{};
  socklen_t bytes = sizeof peer;
  Descriptor accepted(accept4(acceptor.native_handle(), reinterpret_cast<sockaddr*>(&peer), &bytes, SOCK_CLOEXEC));
  if (!accepted) {
    error = last_error();
    return socket;
  }
  socket.assign(peer.ss_family == AF_INET6 ? tcp::v6() : tcp::v4(), accepted.get(), error);
  if (!error) accepted.release();
  return socket;
}

std::size_t free_descriptors() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  std::size_t used = 0;
  if (DIR* folder = opendir("/proc/self/fd")) {
    while (readdir(folder)) used++;
    closedir(folder);
  }
  return limit.rlim_cur > used ? std::size_t(limit.rlim_cur) - used : 0;
}

bool SpareDescriptor::take() {
  if (!descriptor_) descriptor_ = Descriptor(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  return bool(descriptor_);
}

}  // namespace anello::net
