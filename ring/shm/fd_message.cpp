#include "ring/shm/fd_message.hpp"

#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "ring/base/text.hpp"
#include "ring/base/unshared_socket.hpp"

namespace anello::shm {
namespace {

constexpr std::size_t kMaxDescriptors = 2;

// Makes the address of a Unix socket with an abstract name, which begins with a zero byte.
std::pair<sockaddr_un, socklen_t> address_of(std::string_view name) {
  sockaddr_un address{};
  constexpr std::size_t kMaxName = sizeof address.sun_path - 1;
  if (name.size() > kMaxName)
    throw Error(ErrorCode::network,
                text("a Unix socket's name has ", name.size(), " bytes; the maximum is ", kMaxName));
  address.sun_family = AF_UNIX;
  std::copy(name.begin(), name.end(), address.sun_path + 1);
  return {address, socklen_t(offsetof(sockaddr_un, sun_path) + 1 + name.size())};
}

Descriptor unix_socket() {
  Descriptor socket = unshared_socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK);
  if (!socket) throw system_error("making a Unix socket", ErrorCode::network);
  return socket;
}

}  // namespace

Descriptor listen_as(std::string_view name) {
  Descriptor socket = unix_socket();
  const auto [address, bytes] = address_of(name);
  if (bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), bytes) != 0)
    throw system_error("binding a Unix socket", ErrorCode::network);
  if (listen(socket.get(), SOMAXCONN) != 0) throw system_error("listening on a Unix socket", ErrorCode::network);
  return socket;
}

Descriptor connect_to(std::string_view name) {
  Descriptor socket = unix_socket();
  const auto [address, bytes] = address_of(name);
  if (connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), bytes) != 0)
    throw system_error("connecting a Unix socket", ErrorCode::network);
  return socket;
}

Descriptor accept_from(const Descriptor& listener) {
  Descriptor socket = accept_unshared(listener.get(), SOCK_NONBLOCK);
  if (!socket) throw system_error("accepting on a Unix socket", ErrorCode::network);
  return socket;
}

uid_t user_of(const Descriptor& socket) {
  ucred user{};
  socklen_t bytes = sizeof user;
  if (getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &user, &bytes) != 0)
    throw system_error("finding out which process connected to a Unix socket", ErrorCode::network);
  return user.uid;
}

void send_fd_message(const Descriptor& socket, std::string_view bytes, std::span<const int> descriptors) {
  iovec data{const_cast<char*>(bytes.data()), bytes.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMaxDescriptors * sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(descriptors.size_bytes());
  std::memcpy(CMSG_DATA(header), descriptors.data(), descriptors.size_bytes());
  if (sendmsg(socket.get(), &message, MSG_NOSIGNAL) != ssize_t(bytes.size()))
    throw system_error("sending over a Unix socket", ErrorCode::network);
}

FdMessage receive_fd_message(const Descriptor& socket, std::size_t bytes) {
  FdMessage received{std::string(bytes, '\0'), {}};
  iovec data{received.bytes.data(), bytes};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMaxDescriptors * sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t got = recvmsg(socket.get(), &message, MSG_CMSG_CLOEXEC);
  if (got < 0) throw system_error("receiving from a Unix socket", ErrorCode::network);
  received.bytes.resize(std::size_t(got));
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    for (std::size_t k = 0; CMSG_LEN((k + 1) * sizeof(int)) <= header->cmsg_len; k++) {
      int number = -1;
      std::memcpy(&number, CMSG_DATA(header) + k * sizeof(int), sizeof number);
      received.descriptors.emplace_back(number);
    }
  }
  if (message.msg_flags & MSG_CTRUNC)
    throw Error(
        ErrorCode::network,
        text("a descriptor that was sent over a Unix socket does not fit: none is left in this process, or more ",
             "came than expected", remedy_for_lack_of_files(EMFILE)));
  return received;
}

}  // namespace anello::shm
