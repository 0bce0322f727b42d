#include "rendezvous/join/credential_exchange.hpp"

#include <asio/buffer.hpp>
#include <asio/read.hpp>
#include <asio/redirect_error.hpp>
#include <asio/use_awaitable.hpp>
#include <asio/write.hpp>

#include "rendezvous/client/server_search.hpp"
#include "ring/base/log.hpp"
#include "ring/base/text.hpp"
#include "ring/net/accept.hpp"
#include "ring/net/context.hpp"
#include "ring/net/deadline.hpp"
#include "ring/net/event_loop.hpp"
#include "ring/net/half_open.hpp"
#include "ring/net/sockets.hpp"
#include "ring/net/spawn.hpp"

namespace anello::rendezvous {

using asio::ip::tcp;
using std::chrono::milliseconds;

namespace {

constexpr std::string_view kCredentialStart = "MUNGE:", kRequest = "anello request 1", kRefusal = "anello refusal 1";
constexpr milliseconds kRequestLimit{5000};  // limit for one request; a rank's munged may be slow

tcp::endpoint numeric_endpoint(const net::HostPort& address) {
  return {asio::ip::make_address(address.host), address.port};
}

// Reads until the peer closes the connection, which marks the end of the credential.
asio::awaitable<std::string> read_credential(tcp::socket& socket) {
  asio::error_code failure;
  std::string bytes(Munge::kMaxCredentialBytes, '\0');
  bytes.resize(
      co_await asio::async_read(socket, asio::buffer(bytes), asio::redirect_error(asio::use_awaitable, failure)));
  if (failure && failure != asio::error::eof) throw Error(ErrorCode::network, failure.message());
  if (bytes.empty()) throw Error(ErrorCode::network, "the connection was closed");
  if (bytes == kRefusal)
    throw Error(ErrorCode::network,
                "it refused this process's munge credential: another user made it, or the hosts' munge keys differ");
  if (!failure || !bytes.starts_with(kCredentialStart))
    throw Error(ErrorCode::network, "another program is there: it sent no credential");
  co_return bytes;
}

asio::awaitable<void> write_credential(tcp::socket& socket, const std::string& credential) {
  asio::error_code failure;
  co_await asio::async_write(socket, asio::buffer(credential), asio::redirect_error(asio::use_awaitable, failure));
  if (!failure) socket.shutdown(tcp::socket::shutdown_send, failure);
  if (failure) throw Error(ErrorCode::network, failure.message());
}

}  // namespace

class CredentialListener::Impl {
 public:
  Impl(const net::HostPort& address, std::shared_ptr<Munge> munge, const Invitation& invitation,
       std::function<bool()> open, std::size_t max_half_open)
      : munge_(std::move(munge)), text_(encode(invitation)), open_(std::move(open)), half_open_(max_half_open) {
    net::listen(acceptor_, numeric_endpoint(address));
    const auto take = [this](tcp::socket socket) { net::spawn(event_loop_.context(), answer(std::move(socket))); };
    const auto make_room = [this] { half_open_.close_oldest(net::kTimeEnough); };
    net::spawn(event_loop_.context(), net::accept_each(acceptor_, {"the credential listener", make_room, take}));
  }
  ~Impl() { event_loop_.stop(); }

 private:
  // munged decodes only requests of this user, so no credential is made for a connection of another user.
  asio::awaitable<void> answer(tcp::socket socket) {
    try {
      const net::HalfOpen::Place place(half_open_, socket);
      const net::Deadline deadline(socket, kRequestLimit);
      const std::string request = co_await read_credential(socket);
      const bool accepted = accepts(request);
      if (accepted && !open_()) co_return;
      const std::string answer = accepted ? own_credential() : std::string(kRefusal);
      co_await write_credential(socket, answer);
    } catch (const std::exception& error) {
      log(Severity::info, text("could not send the invitation to the job over a connection: ", error.what()));
    }
  }

  bool accepts(const std::string& request) try {
    return munge_->decode(request) == kRequest;
  } catch (const Error& error) {
    log(Severity::info, text("refused a connection's credential: ", error.what()));
    return false;
  }

  std::string own_credential() try { return munge_->encode(text_); } catch (const Error& error) {
    log(Severity::warning, text("cannot send the job's secret to a rank: ", error.what()));
    throw;
  }

  const std::shared_ptr<Munge> munge_;
  const std::string text_;
  const std::function<bool()> open_;
  net::HalfOpen half_open_;
  net::EventLoop event_loop_;
  tcp::acceptor acceptor_{event_loop_.context()};
};

CredentialListener::CredentialListener(const net::HostPort& address, std::shared_ptr<Munge> munge,
                                       const Invitation& invitation, std::function<bool()> open,
                                       std::size_t max_half_open)
    : impl_(std::make_unique<Impl>(address, std::move(munge), invitation, std::move(open), max_half_open)) {}
CredentialListener::~CredentialListener() = default;

namespace {

asio::awaitable<void> ask(tcp::socket& socket, const std::string& job, Munge& munge, std::optional<Invitation>& out) {
  // Read before the other side closes the socket, because afterwards the address is not available.
  const std::string host = socket.remote_endpoint().address().to_string();
  const std::string request = munge.encode(std::string(kRequest));
  co_await write_credential(socket, request);
  const std::string answer = co_await read_credential(socket);
  Invitation found = decode_invitation(munge.decode(answer));
  if (found.job != job)
    throw Error(ErrorCode::network,
                text("it belongs to job '", printable(found.job), "', but this rank belongs to '", job, "'"));
  found.host = host;
  out = std::move(found);
}

// For every failure throws Error{network}, because after this error the search for an invitation goes on.
asio::awaitable<void> ask_or_go_on(tcp::socket& socket, const std::string& job, Munge& munge,
                                   std::optional<Invitation>& out) {
  try {
    co_await ask(socket, job, munge, out);
  } catch (const asio::system_error& error) {
    throw Error(ErrorCode::network, error.code().message());
  } catch (const Error& error) {
    throw Error(ErrorCode::network, error.message());
  }
}

}  // namespace

std::optional<Invitation> find_invitation(const std::string& job, const std::vector<net::HostPort>& places,
                                          Munge& munge, std::chrono::steady_clock::time_point deadline,
                                          std::string& tried) {
  net::Context context;
  std::optional<Invitation> found;
  const auto prove = [&](tcp::socket& socket) { return ask_or_go_on(socket, job, munge, found); };
  ServerSearch search(
      context, {.addresses = places,
                .prove = prove,
                .name = text("the first rank of job '", job, "', which has not been started, has ended or is slow")});
  const bool is_found = search.find(deadline) == ServerSearch::Outcome::found;
  tried = search.tried();
  return is_found ? found : std::nullopt;
}

}  // namespace anello::rendezvous
