#include "tests/support/proxy.hpp"

#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/redirect_error.hpp>
#include <asio/use_awaitable.hpp>
#include <asio/write.hpp>
#include <utility>

#include "ring/net/accept.hpp"

namespace anello {

using asio::awaitable;
using asio::redirect_error;
using asio::use_awaitable;
using asio::ip::tcp;

struct Proxy::Pair {
  Socket client, server;

  void close() {
    asio::error_code ignored;
    client.close(ignored);
    server.close(ignored);
  }
};

Proxy::Proxy(asio::io_context& context, const Endpoint& target)
    : context_(context),
      target_(target),
      listener_(context, {asio::ip::address_v4::loopback(), 0}),
      port_(listener_.local_endpoint().port()) {
  const auto take = [this](Socket client) { asio::co_spawn(context_, connect(std::move(client)), asio::detached); };
  asio::co_spawn(context, net::accept_each(listener_, {"a proxy", [] {}, take}), asio::detached);
}

void Proxy::fault(const Fault& fault) {
  const std::lock_guard lock(mutex_);
  fault_ = fault;
}

bool Proxy::cut_off() const {
  const std::lock_guard lock(mutex_);
  return fault_.cut_off;
}

awaitable<void> Proxy::connect(Socket client) {
  const auto pair = std::make_shared<Pair>(Pair{std::move(client), Socket(context_)});
  while (cut_off()) co_await net::pause(std::chrono::milliseconds(5));
  asio::error_code refused;
  co_await pair->server.async_connect(target_, redirect_error(use_awaitable, refused));
  if (refused) co_return pair->close();
  for (Socket* socket : {&pair->client, &pair->server}) socket->set_option(tcp::no_delay(true));
  asio::co_spawn(context_, pass_on(pair, pair->client, pair->server), asio::detached);
  asio::co_spawn(context_, pass_on(pair, pair->server, pair->client), asio::detached);
}

awaitable<void> Proxy::pass_on(std::shared_ptr<Pair> pair, Socket& from, Socket& to) {
  constexpr std::size_t kMaxBytes = 64 << 10;
  std::uint64_t position = 0;
  std::vector<char> bytes;
  for (;;) {
    bytes.resize(kMaxBytes);
    asio::error_code ended, broken, ignored;
    const std::size_t came = co_await from.async_read_some(asio::buffer(bytes), redirect_error(use_awaitable, ended));
    bytes.resize(came);
    while (cut_off()) co_await net::pause(std::chrono::milliseconds(5));
    const Fate fate = meddle(position, bytes, &from == &pair->server);
    position += came;
    if (fate.wait.count() > 0) co_await net::pause(fate.wait);
    if (!bytes.empty()) co_await asio::async_write(to, asio::buffer(bytes), redirect_error(use_awaitable, broken));
    if (fate.truncate || broken || (ended && ended != asio::error::eof)) co_return pair->close();
    if (!ended && !fate.half_close) continue;
    to.shutdown(tcp::socket::shutdown_send, ignored);
    co_return;
  }
}

Proxy::Fate Proxy::meddle(std::uint64_t position, std::vector<char>& bytes, bool answer) {
  const std::lock_guard lock(mutex_);
  // If the fault at `at` lies in these bytes, returns its place in them and clears the fault.
  const auto reached = [&](std::optional<std::uint64_t>& at) -> std::optional<std::size_t> {
    if (!at || (fault_.answers_only && !answer) || *at < position || *at >= position + bytes.size()) return {};
    return std::size_t(*std::exchange(at, std::nullopt) - position);
  };
  Fate fate{fault_.delay};
  if (fault_.bytes_a_second > 0)
    fate.wait += std::chrono::microseconds(1'000'000 * bytes.size() / fault_.bytes_a_second);
  if (const auto at = reached(fault_.corrupt_at)) bytes[*at] = char(bytes[*at] ^ 4);
  if (const auto at = reached(fault_.drop_at)) bytes.erase(bytes.begin() + std::ptrdiff_t(*at));
  for (auto [where, what] : {std::pair(&fault_.truncate_at, &fate.truncate), {&fault_.half_close_at, &fate.half_close}})
    if (const auto at = reached(*where)) {
      bytes.resize(*at);
      *what = true;
    }
  return fate;
}

}  // namespace anello
