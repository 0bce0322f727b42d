// A rank's side of the rendezvous: it joins, exchanges and leaves. init() uses it while it makes the world. One thread;
// all functions block.
#pragma once
#include <anello/settings.hpp>
#include <chrono>
#include <exception>
#include <string>
#include <vector>

#include "rendezvous/client/server_connection.hpp"
#include "ring/net/addresses.hpp"
#include "ring/world/bootstrap.hpp"

namespace anello {

class RendezvousClient {
 public:
  using Server = rendezvous::KnownServer;

  // Connects to settings.rendezvous, and tries again until the server is there; then joins. Blocks until all ranks have
  // joined, for at most start_timeout plus the time that the system needs to resolve the name. If `rendezvous` lists
  // several addresses, it joins at the first where this job's server answers. If a server refuses this rank, and there
  // is only one address, this is an error at once; if there are several addresses, the next one is tried. If the
  // connection ends before all ranks have joined, this rank connects and joins again. Throws Error{configuration},
  // Error{network} with every address tried, Error{unauthorized}, Error{protocol}, and Error{rendezvous} with the ranks
  // that are missing or have failed. If a rank runs the server, it may also throw MeetAgain.
  RendezvousClient(const Settings& settings, std::string secret, Server server);
  RendezvousClient(const Settings& settings, std::string secret)
      : RendezvousClient(settings, std::move(secret), Server()) {}
  // Connects and proves the secret, but does not join. Gives up after 5 s, or after start_timeout if that is less.
  // Throws as the constructor does.
  static void try_server(const Settings& settings, std::string secret, Server server);
  static void try_server(const Settings& settings, std::string secret) {
    try_server(settings, std::move(secret), Server());
  }
  // Connects, as try_server() does, and joins only to report that this rank cannot start. Throws as the constructor
  // does.
  static void report_failure(const Settings& settings, std::string secret, Server server, const std::exception& why);
  ~RendezvousClient();  // if leave() was not called, the server reports to the other ranks that this rank has ended
  RendezvousClient(const RendezvousClient&) = delete;
  RendezvousClient& operator=(const RendezvousClient&) = delete;

  const Identity& identity() const { return identity_; }

  // Sends this rank's blob, at most 64 KiB, and returns the blobs of all ranks, by rank. Blocks until every rank has
  // sent one (Exchange in ring/world/bootstrap.hpp). Exchanging empty blobs is a barrier.
  std::vector<std::string> exchange(std::string blob);

  // Call this between exchanges. Throws if the server has reported a failure or does so within `patience`, or if the
  // connection with it has ended.
  void check(std::chrono::milliseconds patience);

  // Call this when this rank has started and does not need the server any more. `port`: the port at which this rank
  // listens for other ranks; 0: it does not listen.
  void leave(std::uint16_t port = 0);
  // Call this if this rank could not start. The server sends the reason to the other ranks. It is sent as the failure
  // of the rank that `why` names, or, if `why` names no rank, as the failure of this rank. Does not throw.
  void fail(const std::exception& why) noexcept;

 private:
  using Clock = std::chrono::steady_clock;
  struct NotJoined {};

  RendezvousClient(const Settings& settings, std::string secret, Server server, NotJoined);
  void connect_and_join(Clock::time_point deadline);
  void join(rendezvous::Join mine, std::chrono::milliseconds patience);
  rendezvous::Join own_join(const std::vector<std::string>& addresses);
  void refuse(const std::exception& why);
  [[noreturn]] void throw_as_start_failed(const std::exception& thrown) const;

  const Settings settings_;
  const bool is_reached_from_elsewhere_;          // ranks of other hosts connect to this one
  const bool has_invitation_;                     // true if this rank was invited to a server that already listens
  const std::vector<net::Interface> interfaces_;  // listed before the server waits for this rank to join
  rendezvous::ServerConnection connection_;
  Identity identity_;
};

}  // namespace anello
