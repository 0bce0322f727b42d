#include "ring/net/handover.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <anello/error.hpp>
#include <array>
#include <asio/buffer.hpp>
#include <asio/read.hpp>
#include <asio/redirect_error.hpp>
#include <asio/use_awaitable.hpp>
#include <asio/write.hpp>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <optional>
#include <system_error>
#include <vector>

#include "ring/base/log.hpp"
#include "ring/base/text.hpp"
#include "ring/base/wire.hpp"
#include "ring/net/auth.hpp"
#include "ring/net/deadline.hpp"
#include "ring/shm/shm_link.hpp"

namespace anello {
namespace {

using asio::awaitable;
using asio::ip::tcp;

constexpr std::chrono::milliseconds kLimit{5000};
constexpr std::size_t kNameBytes = 32, kTokenBytes = 32;
constexpr std::size_t kOfferBytes = 8 + kNameBytes + kTokenBytes;
constexpr std::size_t kMostPipeBytes = std::size_t(1) << 30;
constexpr int kMostCallers = 8;

[[noreturn]] void fail(std::string_view what) {
  throw Error(Code::network, text(what, ": ", std::system_category().message(errno)));
}

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(other.release()) {}
  Descriptor& operator=(Descriptor&&) = delete;
  ~Descriptor() {
    if (number_ >= 0) close(number_);
  }
  int get() const { return number_; }
  int release() { return std::exchange(number_, -1); }

 private:
  int number_;
};

// A name of Linux' own kind, which begins with a zero byte and leaves no file behind.
std::pair<sockaddr_un, socklen_t> address_of(std::string_view name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::copy(name.begin(), name.end(), address.sun_path + 1);
  return {address, socklen_t(offsetof(sockaddr_un, sun_path) + 1 + name.size())};
}

Descriptor unix_socket() {
  Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (socket.get() < 0) fail("Unix socket");
  return socket;
}

Descriptor listen_as(std::string_view name) {
  Descriptor socket = unix_socket();
  const auto [address, bytes] = address_of(name);
  if (bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), bytes) != 0) fail("bind a Unix socket");
  if (listen(socket.get(), kMostCallers) != 0) fail("listen on a Unix socket");
  return socket;
}

Descriptor connect_to(std::string_view name) {
  Descriptor socket = unix_socket();
  const auto [address, bytes] = address_of(name);
  if (connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), bytes) != 0) fail("connect a Unix socket");
  return socket;
}

// The token, and descriptors beside it. It fits every socket's buffer, so this never waits.
void send_with(const Descriptor& socket, std::string_view token, std::span<const int> descriptors) {
  iovec data{const_cast<char*>(token.data()), token.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(2 * sizeof(int))> control{};
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
  if (sendmsg(socket.get(), &message, MSG_NOSIGNAL) != ssize_t(token.size())) fail("send over a Unix socket");
}

// What has been sent: the descriptors, if they came with the token and are as many as expected.
std::vector<Descriptor> receive_with(const Descriptor& socket, std::string_view token, std::size_t expected) {
  std::array<char, kTokenBytes> bytes{};
  iovec data{bytes.data(), bytes.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(2 * sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t got = recvmsg(socket.get(), &message, MSG_CMSG_CLOEXEC);
  if (got < 0) fail("receive from a Unix socket");
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
    if (socket.get() < 0) fail("accept on a Unix socket");
    try {
      std::vector<Descriptor> bell = receive_with(socket, token, 1);
      return {std::move(socket), std::move(bell[0])};
    } catch (const Error& e) {
      log(Severity::info, e.message());
    }
  }
  throw Error(Code::network, "only strangers called on the Unix socket");
}

// The connection, under one deadline.
class Talk {
 public:
  explicit Talk(tcp::socket& connection) : connection_(connection), deadline_(connection, kLimit) {}

  awaitable<void> send(std::string bytes) {
    asio::error_code error;
    co_await asio::async_write(connection_, asio::buffer(bytes), asio::redirect_error(asio::use_awaitable, error));
    check(error);
  }
  awaitable<std::string> receive(std::size_t count) {
    std::string bytes(count, '\0');
    asio::error_code error;
    co_await asio::async_read(connection_, asio::buffer(bytes), asio::redirect_error(asio::use_awaitable, error));
    check(error);
    co_return bytes;
  }
  awaitable<void> say(bool yes) {
    std::string byte(1, char(yes));
    co_await send(std::move(byte));
  }
  awaitable<bool> hear() {
    const std::string byte = co_await receive(1);
    co_return byte[0] != 0;
  }

 private:
  void check(const asio::error_code& error) const {
    if (deadline_.passed()) throw Error(Code::timed_out, "sharing memory was not agreed on in time");
    if (error) throw Error(Code::network, error.message());
  }
  tcp::socket& connection_;
  Deadline deadline_;
};

// Nothing that fails here costs more than the sharing.
template <class Work>
bool attempt(Work work) {
  try {
    work();
    return true;
  } catch (const Error& e) {
    log(Severity::info, text("no shared memory with a rank of this host, TCP is used: ", e.message()));
    return false;
  }
}

char* begin_of_pipes(const Segment& segment) {
  return reinterpret_cast<char*>(segment.memory().data() + ShmLink::segment_bytes(0));
}

std::string random_name() {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string name = random_bytes(kNameBytes);
  for (char& c : name) c = kDigits[std::size_t(c) & 15];
  return name;
}

}  // namespace

std::string memory_domain() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  struct stat network {};
  if (stat("/proc/self/ns/net", &network) != 0 || boot.empty()) return {};
  return text(boot, "/", network.st_ino, "/", geteuid());
}

awaitable<std::unique_ptr<Link>> offer_memory(tcp::socket& connection, std::size_t pipe_bytes, int bell) {
  const std::string name = random_name(), token = random_bytes(kTokenBytes);
  std::optional<Segment> segment;
  std::optional<Descriptor> listener, theirs;
  const bool able = attempt([&] {
    segment.emplace(Segment::create(ShmLink::segment_bytes(pipe_bytes)));
    std::copy(token.begin(), token.end(), begin_of_pipes(*segment));
    listener.emplace(listen_as(name));
  });
  Talk talk(connection);
  Writer offer;
  offer.u64(able ? pipe_bytes : 0).raw(name).raw(token);
  co_await talk.send(std::move(offer).take());
  const bool called = co_await talk.hear();
  if (!called) co_return nullptr;
  const bool sent = attempt([&] {
    auto [socket, their_bell] = accept_with(*listener, token);
    send_with(socket, token, std::array{segment->descriptor(), bell});
    theirs.emplace(std::move(their_bell));
  });
  co_await talk.say(sent);
  const bool taken = co_await talk.hear();
  if (!taken) co_return nullptr;
  co_return std::make_unique<ShmLink>(std::move(*segment), pipe_bytes, ShmLink::Side::maker, theirs->release());
}

awaitable<std::unique_ptr<Link>> take_memory(tcp::socket& connection, int bell) {
  Talk talk(connection);
  const std::string offer = co_await talk.receive(kOfferBytes);
  Reader reader("offer of memory", offer);
  const std::size_t pipe_bytes = reader.u64();
  const std::string name(reader.raw(kNameBytes)), token(reader.raw(kTokenBytes));
  if (pipe_bytes > kMostPipeBytes || pipe_bytes % kLineBytes != 0)
    throw Error(Code::protocol, text("memory was offered in pipes of ", pipe_bytes, " bytes"));
  std::optional<Descriptor> socket;
  const bool called = pipe_bytes > 0 && attempt([&] {
                        socket.emplace(connect_to(name));
                        send_with(*socket, token, std::array{bell});
                      });
  co_await talk.say(called);
  if (!called) co_return nullptr;
  const bool sent = co_await talk.hear();
  std::unique_ptr<Link> link;
  const bool taken =
      sent && attempt([&] {
        std::vector<Descriptor> both = receive_with(*socket, token, 2);
        Segment segment = Segment::adopt(both[0].release(), ShmLink::segment_bytes(pipe_bytes));
        if (!same_bytes({begin_of_pipes(segment), kTokenBytes}, token))
          throw Error(Code::protocol, "the token is not in the memory");
        link = std::make_unique<ShmLink>(std::move(segment), pipe_bytes, ShmLink::Side::taker, both[1].release());
      });
  co_await talk.say(taken);
  co_return link;
}

}  // namespace anello
