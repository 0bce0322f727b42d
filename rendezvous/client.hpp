// A rank's side of the rendezvous: finds the server, joins, exchanges, leaves. Blocking; one thread. Used by init()
// only while the world is being made.
#pragma once
#include <anello/settings.hpp>
#include <asio/awaitable.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/protocol.hpp"
#include "ring/net/addresses.hpp"
#include "ring/world/bootstrap.hpp"

namespace anello {

class RendezvousClient {
 public:
  // Connects to settings.rendezvous, again and again until the server is there, and joins. Blocks until all ranks are
  // there, start_timeout at most (and as long as the system's resolver takes).
  // Throws Error{configuration}, {network} with every address tried, {unauthorized}, {protocol}, {rendezvous} that
  // names who is missing or failed.
  RendezvousClient(const Settings& settings, std::string secret);
  ~RendezvousClient();  // without leave(): the others are told that this rank ended
  RendezvousClient(const RendezvousClient&) = delete;
  RendezvousClient& operator=(const RendezvousClient&) = delete;

  const Identity& identity() const { return identity_; }

  // As Exchange in ring/world/bootstrap.hpp; a barrier is an exchange of nothing. Blobs of 64 KiB at most.
  std::vector<std::string> exchange(std::string blob);

  // Between exchanges: throws what the server has said meanwhile or says within `patience`, or that it is gone.
  void check(std::chrono::milliseconds patience);

  // In good order: this rank needs the server no more. It listens at the port.
  void leave(std::uint16_t port = 0);
  // This rank could not start: the others are told why. Never throws.
  void fail(std::string_view reason) noexcept;

 private:
  using Clock = std::chrono::steady_clock;

  void connect(Clock::time_point deadline);
  bool try_all(Clock::time_point deadline);
  bool try_one(const asio::ip::tcp::endpoint& where, Clock::time_point deadline);
  asio::awaitable<void> open(const asio::ip::tcp::endpoint& where, std::chrono::milliseconds limit);
  void join(std::chrono::milliseconds patience);
  std::string own_address() const;
  rendezvous::Reply ask(const rendezvous::Request& request, std::chrono::milliseconds patience);
  asio::awaitable<void> hear(std::chrono::milliseconds limit, rendezvous::Reply& reply);
  asio::awaitable<void> converse(const rendezvous::Request& request, std::chrono::milliseconds limit,
                                 rendezvous::Reply& reply);
  void tell(const rendezvous::Request& request);
  void run(asio::awaitable<void> work);

  const Settings settings_;
  const HostPort server_;
  asio::io_context context_{1};
  asio::ip::tcp::socket socket_{context_};
  std::string tried_;  // what the last attempts ended in, by address
  Identity identity_;
};

}  // namespace anello
