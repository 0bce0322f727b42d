// The rendezvous server: brings the ranks of one job together, then is not needed any more. Owns one thread and its
// listener; safe to construct and destroy from any thread. Knows sockets and the roster, nothing of tensors.
#pragma once
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

namespace anello {

struct ServerOptions {
  std::string listen_address = "127.0.0.1";  // numeric; without a secret only loopback is accepted
  std::uint16_t port = 0;                    // 0: any free one
  std::string job = "default";
  std::string secret;
  int size = 0;  // expected ranks; 0: as the first to join says
  std::chrono::milliseconds start_timeout{60000};
};

class RendezvousServer {
 public:
  // Listens when the constructor returns. Throws Error{network} that names the address and port.
  explicit RendezvousServer(const ServerOptions& options);
  ~RendezvousServer();  // closes every connection and ends the thread
  RendezvousServer(const RendezvousServer&) = delete;
  RendezvousServer& operator=(const RendezvousServer&) = delete;

  std::uint16_t port() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace anello
