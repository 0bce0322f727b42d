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

#include "ring/base/os.hpp"
#include "ring/base/text.hpp"
#include "ring/base/wire.hpp"
#include "ring/net/auth.hpp"
#include "ring/shm/fd_message.hpp"
#include "ring/shm/shm_link.hpp"

namespace anello::net {
namespace {

using asio::awaitable;
using asio::ip::tcp;

constexpr std::size_t kNameBytes = 32, kTokenBytes = 32;
constexpr std::size_t kOfferBytes = 8 + kNameBytes + kTokenBytes;
constexpr std::size_t kMaxPipeBytes = std::size_t(1) << 30;

constexpr std::string_view kTheyCannot = "the other side cannot";

awaitable<void> send(tcp::socket& connection, std::string bytes) {
  asio::error_code error;
  co_await asio::async_write(connection, asio::buffer(bytes), asio::redirect_error(asio::use_awaitable, error));
  if (error) throw Error(ErrorCode::network, error.message());
}
awaitable<std::string> receive(tcp::socket& connection, std::size_t count) {
  std::string bytes(count, '\0');
  asio::error_code error;
  co_await asio::async_read(connection, asio::buffer(bytes), asio::redirect_error(asio::use_awaitable, error));
  if (error) throw Error(ErrorCode::network, error.message());
  co_return bytes;
}
awaitable<void> send_answer(tcp::socket& connection, bool yes) {
  std::string byte(1, char(yes));
  co_await send(connection, std::move(byte));
}
awaitable<bool> receive_answer(tcp::socket& connection) {
  const std::string byte = co_await receive(connection, 1);
  co_return byte[0] != 0;
}

// Runs `work`. If `work` throws, the ranks do not share memory: then puts the reason into `result` and returns false.
template <class Work>
bool attempt(Negotiated& result, Work work) {
  try {
    work();
    return true;
  } catch (const Error& e) {
    result.why_not = e.message();
    result.lies_here = true;
    return false;
  }
}

char* begin_of_pipes(const shm::MemoryFile& file) {
  return reinterpret_cast<char*>(file.memory().data() + shm::ShmLink::file_bytes(0));
}

// Receives the token, and returns the descriptors that came together with it.
std::vector<Descriptor> receive_with(const Descriptor& socket, std::string_view token, std::size_t expected) {
  shm::FdMessage received = shm::receive_fd_message(socket, token.size());
  if (received.descriptors.size() != expected || received.bytes.size() != token.size() ||
      !same_bytes(received.bytes, token))
    throw Error(ErrorCode::protocol, "an unknown process sent something else on the Unix socket");
  return std::move(received.descriptors);
}

// Accepts the next caller. If there is no further caller, the peer, which has already connected, must be one of the
// dropped callers. Then throws `dropped` as the reason.
Descriptor accept_or_say(const Descriptor& listener, const std::string& dropped) {
  try {
    return shm::accept_from(listener);
  } catch (const Error&) {
    throw Error(ErrorCode::network, dropped);
  }
}

// Returns the connection on which the token came, and the descriptor that came with the token. Drops connections of
// other processes, and does not count connections of other users.
std::pair<Descriptor, Descriptor> accept_with(const Descriptor& listener, std::string_view token) {
  constexpr int kMaxCallers = 8;
  std::string dropped;  // the reason why the last caller was dropped
  for (int callers = 0; callers < kMaxCallers;) {
    Descriptor socket = dropped.empty() ? shm::accept_from(listener) : accept_or_say(listener, dropped);
    if (shm::user_of(socket) != geteuid()) continue;
    callers++;
    try {
      std::vector<Descriptor> bell = receive_with(socket, token, 1);
      return {std::move(socket), std::move(bell[0])};
    } catch (const Error& e) {
      dropped = e.message();
    }
  }
  throw Error(ErrorCode::network, dropped);
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

awaitable<Negotiated> offer_memory(tcp::socket& connection, std::size_t pipe_bytes, int bell) {
  const std::string name = random_name(), token = random_bytes(kTokenBytes);
  Negotiated result{nullptr, std::string(kTheyCannot)};
  std::optional<shm::MemoryFile> file;
  std::optional<Descriptor> listener;
  Descriptor fd_socket, theirs;
  const bool able = attempt(result, [&] {
    file.emplace(shm::MemoryFile::create(shm::ShmLink::file_bytes(pipe_bytes)));
    std::copy(token.begin(), token.end(), begin_of_pipes(*file));
    listener.emplace(shm::listen_as(name));
  });
  Writer offer;
  offer.u64(able ? pipe_bytes : 0).raw(name).raw(token);
  co_await send(connection, std::move(offer).take());
  const bool called = co_await receive_answer(connection);
  if (!called) co_return result;
  const bool sent = attempt(result, [&] {
    std::tie(fd_socket, theirs) = accept_with(*listener, token);
    shm::send_fd_message(fd_socket, token, std::array{file->descriptor(), bell});
  });
  co_await send_answer(connection, sent);
  const bool taken = co_await receive_answer(connection);
  if (!taken) co_return result;
  file->close_descriptor();
  result.link = std::make_unique<shm::ShmLink>(std::move(*file), pipe_bytes, shm::ShmLink::Side::maker,
                                               std::move(theirs), std::move(fd_socket));
  co_return result;
}

awaitable<Negotiated> take_memory(tcp::socket& connection, int bell) {
  const std::string offer = co_await receive(connection, kOfferBytes);
  Reader reader("offer of memory", offer);
  const std::size_t pipe_bytes = reader.u64();
  const std::string name(reader.raw(kNameBytes)), token(reader.raw(kTokenBytes));
  Negotiated result{nullptr, std::string(kTheyCannot)};
  Descriptor fd_socket;
  const bool called = pipe_bytes > 0 && attempt(result, [&] {
                        if (pipe_bytes > kMaxPipeBytes || pipe_bytes % shm::kLineBytes != 0)
                          throw Error(ErrorCode::protocol, text("pipes of ", pipe_bytes, " bytes were offered"));
                        fd_socket = shm::connect_to(name);
                        shm::send_fd_message(fd_socket, token, std::array{bell});
                      });
  co_await send_answer(connection, called);
  if (!called) co_return result;
  const bool sent = co_await receive_answer(connection);
  const bool taken =
      sent && attempt(result, [&] {
        std::vector<Descriptor> both = receive_with(fd_socket, token, 2);
        shm::MemoryFile file = shm::MemoryFile::adopt(std::move(both[0]), shm::ShmLink::file_bytes(pipe_bytes));
        if (!same_bytes({begin_of_pipes(file), kTokenBytes}, token))
          throw Error(ErrorCode::protocol, "the token is not in the memory");
        result.link = std::make_unique<shm::ShmLink>(std::move(file), pipe_bytes, shm::ShmLink::Side::taker,
                                                     std::move(both[1]), std::move(fd_socket));
      });
  co_await send_answer(connection, taken);
  co_return result;
}

}  // namespace anello::net
