#include "ring/net/shm_negotiation.hpp"

#include <unistd.h>

#include <algorithm>
#include <anello/error.hpp>
#include <array>
#include <asio/buffer.hpp>
#include <asio/read.hpp>
#include <asio/redirect_error.hpp>
#include <asio/use_awaitable.hpp>
#include <asio/write.hpp>
#include <optional>
#include <tuple>
#include <vector>

#include "ring/base/log.hpp"
#include "ring/base/os.hpp"
#include "ring/base/text.hpp"
#include "ring/base/wire.hpp"
#include "ring/net/auth.hpp"
#include "ring/net/deadline.hpp"
#include "ring/shm/fd_message.hpp"
#include "ring/shm/shm_link.hpp"

namespace anello::net {
namespace {

using asio::awaitable;
using asio::ip::tcp;

constexpr std::chrono::milliseconds kNegotiationLimit{5000};
constexpr std::size_t kNameBytes = 32, kTokenBytes = 32;
constexpr std::size_t kOfferBytes = 8 + kNameBytes + kTokenBytes;
constexpr std::size_t kMaxPipeBytes = std::size_t(1) << 30;

// The connection, under one deadline.
class NegotiationStream {
 public:
  explicit NegotiationStream(tcp::socket& connection)
      : connection_(connection), deadline_(connection, kNegotiationLimit) {}

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
  awaitable<void> send_answer(bool yes) {
    std::string byte(1, char(yes));
    co_await send(std::move(byte));
  }
  awaitable<bool> receive_answer() {
    const std::string byte = co_await receive(1);
    co_return byte[0] != 0;
  }

 private:
  void check(const asio::error_code& error) const {
    if (deadline_.passed()) throw Error(ErrorCode::timed_out, "sharing memory was not agreed on in time");
    if (error) throw Error(ErrorCode::network, error.message());
  }
  tcp::socket& connection_;
  Deadline deadline_;
};

// Runs `work`. If it throws, the ranks use TCP: false.
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

char* begin_of_pipes(const shm::MemoryFile& file) {
  return reinterpret_cast<char*>(file.memory().data() + shm::ShmLink::file_bytes(0));
}

// Returns the descriptors that came with the token.
std::vector<Descriptor> receive_with(const Descriptor& socket, std::string_view token, std::size_t expected) {
  shm::FdMessage received = shm::receive_fd_message(socket, token.size());
  if (received.descriptors.size() != expected || received.bytes.size() != token.size() ||
      !same_bytes(received.bytes, token))
    throw Error(ErrorCode::protocol, "another process sent something on the Unix socket");
  return std::move(received.descriptors);
}

// Returns the connection on which the token came, and the descriptor that came with it. Other processes may connect
// too; their connections are dropped.
std::pair<Descriptor, Descriptor> accept_with(const Descriptor& listener, std::string_view token) {
  for (int caller = 0; caller < shm::kMaxCallers; caller++) {
    Descriptor socket = shm::accept_from(listener);
    try {
      std::vector<Descriptor> bell = receive_with(socket, token, 1);
      return {std::move(socket), std::move(bell[0])};
    } catch (const Error& e) {
      log(Severity::info, e.message());
    }
  }
  throw Error(ErrorCode::network, "the peer did not connect to the Unix socket; other processes did");
}

std::string random_name() {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string name = random_bytes(kNameBytes);
  for (char& c : name) c = kDigits[std::size_t(c) & 15];
  return name;
}

}  // namespace

std::string memory_domain() {
  const std::string identity = kernel_identity("net");
  return identity.empty() ? identity : text(identity, "/", geteuid());
}

awaitable<std::unique_ptr<link::Link>> offer_memory(tcp::socket& connection, std::size_t pipe_bytes, int bell) {
  const std::string name = random_name(), token = random_bytes(kTokenBytes);
  std::optional<shm::MemoryFile> file;
  std::optional<Descriptor> listener;
  Descriptor fd_socket, theirs;
  const bool able = attempt([&] {
    file.emplace(shm::MemoryFile::create(shm::ShmLink::file_bytes(pipe_bytes)));
    std::copy(token.begin(), token.end(), begin_of_pipes(*file));
    listener.emplace(shm::listen_as(name));
  });
  NegotiationStream stream(connection);
  Writer offer;
  offer.u64(able ? pipe_bytes : 0).raw(name).raw(token);
  co_await stream.send(std::move(offer).take());
  const bool called = co_await stream.receive_answer();
  if (!called) co_return nullptr;
  const bool sent = attempt([&] {
    std::tie(fd_socket, theirs) = accept_with(*listener, token);
    shm::send_fd_message(fd_socket, token, std::array{file->descriptor(), bell});
  });
  co_await stream.send_answer(sent);
  const bool taken = co_await stream.receive_answer();
  if (!taken) co_return nullptr;
  co_return std::make_unique<shm::ShmLink>(std::move(*file), pipe_bytes, shm::ShmLink::Side::maker, std::move(theirs),
                                           std::move(fd_socket));
}

awaitable<std::unique_ptr<link::Link>> take_memory(tcp::socket& connection, int bell) {
  NegotiationStream stream(connection);
  const std::string offer = co_await stream.receive(kOfferBytes);
  Reader reader("offer of memory", offer);
  const std::size_t pipe_bytes = reader.u64();
  const std::string name(reader.raw(kNameBytes)), token(reader.raw(kTokenBytes));
  if (pipe_bytes > kMaxPipeBytes || pipe_bytes % shm::kLineBytes != 0)
    throw Error(ErrorCode::protocol, text("memory was offered in pipes of ", pipe_bytes, " bytes"));
  Descriptor fd_socket;
  const bool called = pipe_bytes > 0 && attempt([&] {
                        fd_socket = shm::connect_to(name);
                        shm::send_fd_message(fd_socket, token, std::array{bell});
                      });
  co_await stream.send_answer(called);
  if (!called) co_return nullptr;
  const bool sent = co_await stream.receive_answer();
  std::unique_ptr<link::Link> link;
  const bool taken = sent && attempt([&] {
                       std::vector<Descriptor> both = receive_with(fd_socket, token, 2);
                       shm::MemoryFile file = shm::MemoryFile::adopt(
                           std::move(both[0]), shm::ShmLink::file_bytes(pipe_bytes), shm::MemoryFile::Access::write);
                       if (!same_bytes({begin_of_pipes(file), kTokenBytes}, token))
                         throw Error(ErrorCode::protocol, "the token is not in the memory");
                       link = std::make_unique<shm::ShmLink>(std::move(file), pipe_bytes, shm::ShmLink::Side::taker,
                                                             std::move(both[1]), std::move(fd_socket));
                     });
  co_await stream.send_answer(taken);
  co_return link;
}

}  // namespace anello::net
