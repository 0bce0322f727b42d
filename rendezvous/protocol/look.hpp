// Looks whether a rendezvous server, or a process that may become one, listens at an address.
#pragma once
#include <asio/awaitable.hpp>
#include <chrono>
#include <cstdint>
#include <string>

#include "ring/net/auth.hpp"
#include "ring/net/handshake.hpp"

namespace anello::rendezvous {

struct Look {
  enum class Outcome {
    answers,   // the process has proved the job's secret
    rejects,   // the process has rejected this process, or belongs to another job
    no_entry,  // the kernel there refuses connections: no process listens
    silent     // nothing answered in time
  };
  Outcome outcome = Outcome::silent;
  std::string why;  // the reason if it has rejected this process
};

// `address`: numeric. Run it on an event loop of one thread. The arguments passed by reference must outlive the
// coroutine.
asio::awaitable<Look> look(std::string address, std::uint16_t port, const net::Credentials& credentials,
                           net::Claim claim, std::chrono::milliseconds limit);

}  // namespace anello::rendezvous
