#include "rendezvous/server/abort_notice.hpp"

#include <asio/buffer.hpp>
#include <asio/read.hpp>
#include <asio/redirect_error.hpp>
#include <asio/steady_timer.hpp>
#include <asio/this_coro.hpp>
#include <asio/use_awaitable.hpp>
#include <asio/write.hpp>
#include <memory>

#include "ring/base/log.hpp"
#include "ring/base/text.hpp"
#include "ring/net/deadline.hpp"
#include "ring/net/message_channel.hpp"
#include "ring/net/sockets.hpp"
#include "ring/net/spawn.hpp"

namespace anello::rendezvous {
namespace {

using asio::use_awaitable;
using asio::ip::tcp;

constexpr std::chrono::milliseconds kLimitPerRank{1000}, kBetweenRanks{10};

// Sends the verdict to one rank, and waits until the rank has closed the connection, which it does after it has read
// the verdict. Throws if the verdict cannot be sent.
asio::awaitable<void> send_to_rank(const Roster::Formed& world, const Roster::Reach& to,
                                   const net::Credentials& credentials, const failure::Verdict& verdict) {
  tcp::socket socket(co_await asio::this_coro::executor);
  const net::Deadline deadline(socket, kLimitPerRank);
  const tcp::endpoint where(asio::ip::make_address(to.address), to.port);
  asio::error_code failure;
  net::open_socket(socket, where.protocol(), failure);
  if (!failure) co_await net::connect(socket, where, failure);
  if (failure) throw Error(ErrorCode::network, failure.message());
  const net::Claim claim{net::Role::launcher, world.generation, -1, to.rank, 0, 0, world.incarnation};
  co_await connect_handshake(socket, credentials, claim);
  failure::ControlMessage notice;
  notice.origin = to.rank;
  notice.verdict = verdict;
  const std::string bytes = message(net::MessageKind::frame, encode(notice));
  co_await asio::async_write(socket, asio::buffer(bytes), use_awaitable);
  asio::error_code end;
  char nothing = 0;
  co_await asio::async_read(socket, asio::buffer(&nothing, 1), asio::redirect_error(use_awaitable, end));
  if (end != asio::error::eof) throw Error(ErrorCode::network, end.message());
}

struct Notice {
  const Roster::Formed world;
  const net::Credentials credentials;
  const failure::Verdict verdict;
  bool received = false;
};

asio::awaitable<void> try_rank(std::shared_ptr<Notice> notice, std::size_t index) {
  const Roster::Reach& to = notice->world.ranks[index];
  try {
    co_await send_to_rank(notice->world, to, notice->credentials, notice->verdict);
    notice->received = true;
  } catch (const std::exception& error) {
    log(Severity::info, text("rank ", to.rank, " did not receive the abort notice: ", error.what()));
  }
}

}  // namespace

asio::awaitable<void> send_abort_notice(Roster::Formed world, net::Credentials credentials, failure::Verdict verdict) {
  const auto notice = std::make_shared<Notice>(Notice{std::move(world), std::move(credentials), std::move(verdict)});
  const auto executor = co_await asio::this_coro::executor;
  asio::steady_timer pause(executor);
  for (std::size_t index = 0; index < notice->world.ranks.size() && !notice->received; index++) {
    net::spawn(executor, try_rank(notice, index));
    pause.expires_after(kBetweenRanks);
    asio::error_code ignored;
    co_await pause.async_wait(asio::redirect_error(use_awaitable, ignored));
  }
}

}  // namespace anello::rendezvous
