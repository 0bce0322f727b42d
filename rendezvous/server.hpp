// The rendezvous server: brings the ranks of one job together, then is not needed any more. Owns one thread and its
// listener; safe to construct and destroy from any thread. Knows sockets and the roster, nothing of tensors.
// It serves one world at a time; when all of its ranks have left, or its start-up has failed, the next may gather.
#pragma once
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "ring/trace/rejected_connections.hpp"

namespace anello {

struct ServerOptions {
  std::string listen_address = "127.0.0.1";  // numeric; without a secret only loopback is accepted
  std::uint16_t port = 0;                    // 0: any free one
  std::string job = "default";
  std::string secret;
  int size = 0;                                    // expected ranks; 0: as the first to join says
  std::chrono::milliseconds start_timeout{60000};  // bounds each wait of ranks for each other, as their own does
  std::string metrics;                             // "host:port" where Prometheus finds the counters; empty: nowhere
  std::size_t half_open_most = 1024;               // connections that have not joined yet; the oldest makes room
};

// A moment of the server's life.
struct ServerStats {
  std::uint32_t generation = 1;                        // of the world that gathers or starts
  std::size_t members = 0;                             // ranks that have joined it and not left
  bool starting = false;                               // all have joined
  int worlds_formed = 0;                               // worlds whose ranks have all left in good order
  RejectedConnections::Counts rejected_connections{};  // connections that ended before they had joined
  std::size_t half_open = 0;                           // connections that have not joined yet
  std::size_t reachable = 0;  // ranks of the newest world that have left, and can be told that it is to end
  std::string last_failure;   // of a start-up; empty after a success
};

class RendezvousServer {
 public:
  // Listens when the constructor returns. Throws Error{network} that names the address and port, Error{configuration}
  // if it would listen to more than loopback without a secret, Error{unsupported} as require_usable().
  explicit RendezvousServer(const ServerOptions& options);
  ~RendezvousServer();  // closes every connection and ends the thread
  RendezvousServer(const RendezvousServer&) = delete;
  RendezvousServer& operator=(const RendezvousServer&) = delete;

  std::uint16_t port() const;
  ServerStats stats() const;  // any thread

  // Ends the newest world with Error{aborted}, whether it starts or runs: every rank is told the reason, and the rank
  // that is to blame, or -1. Any thread; does not wait. False: there is no rank to tell.
  bool abort(int culprit, const std::string& reason);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace anello
