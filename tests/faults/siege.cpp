#include "tests/faults/siege.hpp"

#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/io_context.hpp>
#include <asio/read.hpp>
#include <asio/redirect_error.hpp>
#include <asio/steady_timer.hpp>
#include <asio/use_awaitable.hpp>
#include <asio/write.hpp>
#include <atomic>
#include <future>

#include "ring/net/accept.hpp"
#include "ring/net/auth.hpp"
#include "tests/support/loopback.hpp"

namespace anello::faults {

using asio::awaitable;
using asio::redirect_error;
using asio::use_awaitable;
using asio::ip::tcp;
using std::chrono::milliseconds;

namespace {

constexpr std::size_t kHeaderBytes = 9;

awaitable<std::string> read_frame(tcp::socket& socket) {
  std::string bytes(kHeaderBytes, '\0');
  asio::error_code ended;
  co_await asio::async_read(socket, asio::buffer(bytes), redirect_error(use_awaitable, ended));
  const auto body = static_cast<unsigned char>(bytes[7]) + 256u * static_cast<unsigned char>(bytes[8]);
  bytes.resize(kHeaderBytes + body);
  co_await asio::async_read(socket, asio::buffer(bytes.data() + kHeaderBytes, body),
                            redirect_error(use_awaitable, ended));
  co_return bytes;
}

awaitable<void> say(tcp::socket& socket, std::string bytes) {
  asio::error_code ended;
  co_await asio::async_write(socket, asio::buffer(bytes), redirect_error(use_awaitable, ended));
}

// The messages of a rank: its hello, and its proof to a listener, which answers the listener's challenge.
struct Recording {
  std::string hello, proof;
};

awaitable<void> overhear(tcp::socket& socket, Recording& recording) {
  recording.hello = co_await read_frame(socket);
  const std::string nonce = net::random_bytes(net::kNonceBytes);
  std::string challenge = recording.hello.substr(0, 6) + '\2' + char(nonce.size()) + '\0' + nonce;
  co_await say(socket, challenge);
  recording.proof = co_await read_frame(socket);
  socket.close();
}

awaitable<void> try_to_greet(tcp::socket& socket, net::Credentials credentials, net::Claim claim) {
  try {
    co_await connect_handshake(socket, credentials, claim);
  } catch (const Error&) {  // expected
  }
}

Recording record(const net::Credentials& credentials, const net::Claim& claim) {
  Loopback pair;
  Recording recording;
  asio::co_spawn(pair.context, try_to_greet(pair.a, credentials, claim), asio::detached);
  asio::co_spawn(pair.context, overhear(pair.b, recording), asio::detached);
  pair.context.run();
  return recording;
}

}  // namespace

std::string_view name(Hostile kind) {
  constexpr std::array<std::string_view, kHostiles> kNames{"noise",        "oversized", "prefix",         "replayed",
                                                           "wrong secret", "wrong job", "old generation", "half open"};
  return kNames[std::size_t(kind)];
}

class Siege::Impl {
 public:
  explicit Impl(const Plan& plan)
      : plan_(plan), recording_(record(plan.credentials, rank())), all_gone_(std::async(std::launch::async, [this] {
          asio::co_spawn(context_, come_in_turn(), asio::detached);
          context_.run();
        })) {}
  ~Impl() {
    context_.stop();
    all_gone_.wait();
  }
  bool wait(milliseconds limit) { return all_gone_.wait_for(limit) == std::future_status::ready; }

  std::array<std::atomic<long>, kHostiles> made{};

 private:
  static net::Claim rank() { return {net::Role::data, 1, 3, 0}; }

  awaitable<void> come_in_turn() {
    constexpr milliseconds kBetween{10};
    const long at_a_time = std::max(1L, plan_.a_second * long(kBetween.count()) / 1000);
    const long all = plan_.of_each_kind * long(kHostiles);
    auto next = std::chrono::steady_clock::now();
    asio::steady_timer timer(context_);
    for (long k = 0; k < all; k++) {
      asio::co_spawn(context_, come(Hostile(std::size_t(k) % kHostiles), std::size_t(k) / kHostiles), asio::detached);
      if (k % at_a_time != 0) continue;
      timer.expires_at(next += kBetween);
      co_await timer.async_wait(use_awaitable);
    }
  }

  awaitable<void> come(Hostile kind, std::size_t number) {
    const tcp::endpoint door(asio::ip::address_v4::loopback(), plan_.doors[number % plan_.doors.size()]);
    tcp::socket socket(context_);
    for (;;) {
      asio::error_code refused;
      co_await socket.async_connect(door, redirect_error(use_awaitable, refused));
      if (!refused) break;
      socket = tcp::socket(context_);
      co_await net::pause(milliseconds(100));
    }
    made[std::size_t(kind)]++;
    co_await behave(kind, socket);
    std::string answer;
    asio::error_code ended;
    co_await asio::async_read(socket, asio::dynamic_buffer(answer), redirect_error(use_awaitable, ended));
  }

  awaitable<void> behave(Hostile kind, tcp::socket& socket) {
    net::Credentials credentials = plan_.credentials;
    net::Claim claim = rank();
    switch (kind) {
      case Hostile::noise:
        return say(socket, net::random_bytes(100));
      case Hostile::oversized:
        return say(socket, recording_.hello.substr(0, 7) + "\xff\xff");
      case Hostile::prefix:
        return say(socket, recording_.hello.substr(0, 40));
      case Hostile::replayed:
        return replay(socket);
      case Hostile::wrong_secret:
        credentials.secret = "not this one";
        return try_to_greet(socket, credentials, claim);
      case Hostile::wrong_job:
        credentials.job = "another";
        return try_to_greet(socket, credentials, claim);
      case Hostile::old_generation:
        claim.generation = 0;
        return try_to_greet(socket, credentials, claim);
      case Hostile::half_open:
        break;
    }
    return say(socket, "");
  }

  awaitable<void> replay(tcp::socket& socket) {
    co_await say(socket, recording_.hello);
    co_await read_frame(socket);
    co_await say(socket, recording_.proof);
  }

  const Plan plan_;
  const Recording recording_;
  asio::io_context context_;
  std::future<void> all_gone_;
};

Siege::Siege(const Plan& plan) : impl_(std::make_unique<Impl>(plan)) {}
Siege::~Siege() = default;
bool Siege::wait(milliseconds limit) {
  return impl_->wait(limit);
}
std::array<long, kHostiles> Siege::made() const {
  std::array<long, kHostiles> all;
  for (std::size_t k = 0; k < kHostiles; k++) all[k] = impl_->made[k];
  return all;
}

}  // namespace anello::faults
