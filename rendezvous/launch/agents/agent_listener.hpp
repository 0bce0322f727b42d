// Accepts the connections of agents on its own thread, and checks by handshake that they have the job's secret. next()
// gives the sockets to the launcher's loop.
#pragma once
#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include <asio/awaitable.hpp>
#include <asio/ip/tcp.hpp>

#include "rendezvous/launch/base/descriptor.hpp"
#include "ring/base/mutex.hpp"
#include "ring/net/event_loop.hpp"
#include "ring/net/half_open.hpp"
#include "ring/net/handshake.hpp"

namespace anello::launch {

// The two connections of an agent. Their handshakes contain these numbers as the lane.
inline constexpr std::uint32_t kMessageLane = 0, kLifelineLane = 1;

class AgentListener {
 public:
  struct Arrival {
    int host;  // number in the layout
    std::uint32_t lane;
    Descriptor socket;
    std::string address;  // address of this host at which the agent reached it
  };

  // Listens at one of `ports` on all addresses, or only on loopback. Throws Error{network}.
  AgentListener(net::Credentials credentials, int hosts, bool loopback, std::string_view ports);
  ~AgentListener();  // blocks until its thread has ended, which does not take long
  AgentListener(const AgentListener&) = delete;
  AgentListener& operator=(const AgentListener&) = delete;

  std::uint16_t port() const { return port_; }
  int fd() const { return bell_.get(); }  // readable when next() may return a connection
  std::optional<Arrival> next();          // does not block

 private:
  void listen(bool loopback, std::string_view ports);
  asio::awaitable<void> welcome(asio::ip::tcp::socket socket);
  void hand_over(Arrival arrival);

  const net::Credentials credentials_;
  const int hosts_;
  net::HalfOpen half_open_;
  Descriptor bell_;
  Mutex mutex_;
  std::deque<Arrival> arrivals_ ANELLO_GUARDED_BY(mutex_);
  std::uint16_t port_ = 0;
  net::EventLoop event_loop_;  // declared before the objects that its coroutines use
  asio::ip::tcp::acceptor acceptor_{event_loop_.context()};
};

}  // namespace anello::launch
