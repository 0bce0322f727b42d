#include "rendezvous/credential_exchange.hpp"

#include <sys/socket.h>

#include <asio/buffer.hpp>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/io_context.hpp>
#include <asio/read.hpp>
#include <asio/redirect_error.hpp>
#include <asio/use_awaitable.hpp>
#include <asio/write.hpp>

#include "ring/base/log.hpp"
#include "ring/base/text.hpp"
#include "ring/net/accept.hpp"
#include "ring/net/deadline.hpp"
#include "ring/net/event_loop.hpp"
#include "ring/net/sockets.hpp"

namespace anello::rendezvous {

using asio::ip::tcp;
using std::chrono::milliseconds;

namespace {

constexpr std::string_view kCredentialStart = "MUNGE:";

tcp::endpoint numeric_endpoint(const net::HostPort& address) {
  return {asio::ip::make_address(address.host), address.port};
}

}  // namespace

class CredentialListener::Impl {
 public:
  Impl(const net::HostPort& address, std::shared_ptr<Munge> munge, const Invitation& invitation, Limits limits)
      : munge_(std::move(munge)), text_(encode(invitation)), limits_(std::move(limits)), left_(limits_.credentials) {
    net::listen(acceptor_, numeric_endpoint(address));
    const auto take = [this](tcp::socket socket) { send_credential(std::move(socket)); };
    asio::co_spawn(event_loop_.context(), net::accept_each(acceptor_, {"the credential listener", [] {}, take}),
                   asio::detached);
  }
  ~Impl() { event_loop_.stop(); }

 private:
  // A few hundred bytes into an empty socket buffer: this does not block. What the other side sends is not read.
  void send_credential(tcp::socket socket) {
    if (!limits_.open() || is_closed(socket) || !take_one()) return;
    try {
      asio::error_code ignored;
      asio::write(socket, asio::buffer(munge_->encode(text_)), ignored);
      socket.shutdown(tcp::socket::shutdown_send, ignored);
    } catch (const Error& error) {
      log(Severity::warning, text("cannot send the job's secret to a rank: ", error.what()));
    }
  }

  // The other side has given up while others were served.
  static bool is_closed(tcp::socket& socket) {
    char byte = 0;
    return recv(socket.native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
  }

  bool take_one() {
    if (left_ == 0)
      log(Severity::warning, text("the job's secret has been asked for ", limits_.credentials,
                                  " times, far more often than it has ranks; it is not sent any more"));
    return left_ >= 0 && left_-- > 0;
  }

  const std::shared_ptr<Munge> munge_;
  const std::string text_;
  const Limits limits_;
  int left_;
  net::EventLoop event_loop_;
  tcp::acceptor acceptor_{event_loop_.context()};
};

CredentialListener::CredentialListener(const net::HostPort& address, std::shared_ptr<Munge> munge,
                                       const Invitation& invitation, Limits limits)
    : impl_(std::make_unique<Impl>(address, std::move(munge), invitation, std::move(limits))) {}
CredentialListener::~CredentialListener() = default;

namespace {

asio::awaitable<void> read_credential(tcp::socket& socket, tcp::endpoint from, milliseconds limit, std::string& out) {
  const net::Deadline deadline(socket, limit);
  asio::error_code failure;
  net::open_socket(socket, from.protocol(), failure);
  if (!failure) co_await net::connect(socket, from, failure);
  std::string bytes(Munge::kMaxCredentialBytes, '\0');
  std::size_t have = 0;
  if (!failure)
    have = co_await asio::async_read(socket, asio::buffer(bytes), asio::redirect_error(asio::use_awaitable, failure));
  if (deadline.passed()) throw Error(ErrorCode::timed_out, text("no credential within ", limit.count(), " ms"));
  if (failure && failure != asio::error::eof) throw Error(ErrorCode::network, failure.message());
  out = bytes.substr(0, have);
  if (out.empty()) throw Error(ErrorCode::network, "the connection was closed");
  if (!out.starts_with(kCredentialStart)) throw Error(ErrorCode::network, "something else listens there");
}

}  // namespace

Invitation receive_invitation(const std::vector<tcp::endpoint>& host, std::uint16_t port, Munge& munge,
                              milliseconds limit) {
  asio::io_context context(1);
  std::exception_ptr thrown;
  for (const tcp::endpoint& address : host) {
    std::string credential;
    thrown = nullptr;
    tcp::socket socket(context);
    const tcp::endpoint from(address.address(), port);
    asio::co_spawn(context, read_credential(socket, from, limit, credential),
                   [&](std::exception_ptr error) { thrown = std::move(error); });
    context.restart();
    context.run();
    if (thrown) continue;
    Invitation out = decode_invitation(munge.decode(credential));
    out.host = address.address().to_string();
    return out;
  }
  if (thrown) std::rethrow_exception(thrown);
  throw Error(ErrorCode::network, "the host has no address");
}

std::vector<InvitationSource> CredentialSources::operator()() {
  asio::error_code failure;
  if (addresses_.empty()) addresses_ = look_up_(host_, 0, failure);
  if (addresses_.empty()) {
    const std::string why = failure ? failure.message() : "it has no address";
    return {{text("to resolve '", host_, "'"),
             [why](milliseconds) -> Invitation { throw Error(ErrorCode::network, why); }}};
  }
  std::vector<InvitationSource> out;
  for (const std::uint16_t port : ports_)
    out.push_back({net::host_port(host_, port),
                   [this, port](milliseconds limit) { return receive_invitation(addresses_, port, munge_, limit); }});
  return out;
}

}  // namespace anello::rendezvous
