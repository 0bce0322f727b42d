#include "ring/net/unix_socket.hpp"

#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>

#include "ring/base/log.hpp"
#include "ring/net/auth.hpp"

namespace anello {
namespace {

constexpr std::size_t kMostDescriptors = 2;
constexpr int kMostCallers = 8;

// A name of Linux' own kind, which begins with a zero byte and leaves no file behind.
std::pair<sockaddr_un, socklen_t> address_of(std::string_view name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::copy(name.begin(), name.end(), address.sun_path + 1);
  return {address, socklen_t(offsetof(sockaddr_un, sun_path) + 1 + name.size())};
}

Descriptor unix_socket() {
  Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) throw system_error("making a Unix socket", Code::network);
  return socket;
}

}  // namespace

Descriptor listen_as(std::string_view name) {
  Descriptor socket = unix_socket();
  const auto [address, bytes] = address_of(name);
  if (bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), bytes) != 0)
    throw system_error("binding a Unix socket", Code::network);
  if (listen(socket.get(), kMostCallers) != 0) throw system_error("listening on a Unix socket", Code::network);
  return socket;
}

Descriptor connect_to(std::string_view name) {
  Descriptor socket = unix_socket();
  const auto [address, bytes] = address_of(name);
  if (connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), bytes) != 0)
    throw system_error("connecting a Unix socket", Code::network);
  return socket;
}

// The token fits every socket's buffer, so this never waits.
void send_with(const Descriptor& socket, std::string_view token, std::span<const int> descriptors) {
  iovec data{const_cast<char*>(token.data()), token.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMostDescriptors * sizeof(int))> control{};
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
  if (sendmsg(socket.get(), &message, MSG_NOSIGNAL) != ssize_t(token.size()))
    throw system_error("sending over a Unix socket", Code::network);
}

std::vector<Descriptor> receive_with(const Descriptor& socket, std::string_view token, std::size_t expected) {
  std::string bytes(token.size(), '\0');
  iovec data{bytes.data(), bytes.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMostDescriptors * sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t got = recvmsg(socket.get(), &message, MSG_CMSG_CLOEXEC);
  if (got < 0) throw system_error("receiving from a Unix socket", Code::network);
  std::vector<Descriptor> descriptors;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    for (std::size_t k = 0; CMSG_LEN((k + 1) * sizeof(int)) <= header->cmsg_len; k++) {
      int number = -1;
      std::memcpy(&number, CMSG_DATA(header) + k * sizeof(int), sizeof number);
      descriptors.emplace_back(number);
    }
  }
  const std::string_view theirs(bytes.data(), std::size_t(got));
  if (descriptors.size() != expected || theirs.size() != token.size() || !same_bytes(theirs, token))
    throw Error(Code::protocol, "a stranger spoke on the Unix socket");
  return descriptors;
}

// Strangers may have called as well.
std::pair<Descriptor, Descriptor> accept_with(const Descriptor& listener, std::string_view token) {
  for (int caller = 0; caller < kMostCallers; caller++) {
    Descriptor socket(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket) throw system_error("accepting on a Unix socket", Code::network);
    try {
      std::vector<Descriptor> bell = receive_with(socket, token, 1);
      return {std::move(socket), std::move(bell[0])};
    } catch (const Error& e) {
      log(Severity::info, e.message());
    }
  }
  throw Error(Code::network, "only strangers called on the Unix socket");
}

}  // namespace anello
