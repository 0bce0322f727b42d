// The control plane of a world: connections to the ranks 2^i away, apart from the data, on which the FailureAgreement's
// frames are flooded. Lives on the background thread; the functions marked so may be called from any.
#pragma once
#include <asio/steady_timer.hpp>
#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "ring/failure/agreement.hpp"
#include "ring/failure/heartbeat.hpp"
#include "ring/failure/stragglers.hpp"
#include "ring/link/waiter.hpp"
#include "ring/net/connections.hpp"
#include "ring/net/message_channel.hpp"
#include "ring/trace/flight_recorders.hpp"

namespace anello {

class ControlPlane {
 public:
  // Once there is a verdict: its message, on the background thread.
  using WhenFailed = std::function<void(const std::string& why)>;

  // Who is not heard for `silence_limit` ends the world; 0: nobody does so.
  ControlPlane(asio::io_context& context, PeerConnections& peer_connections, const Identity& identity,
               std::vector<std::string> hosts, FlightRecorders& recorders, std::chrono::milliseconds silence_limit,
               WhenFailed when_failed);

  // Connects to the neighbours of lower rank and waits for those of higher. Any thread but the background one; throws
  // Error{network, unauthorized, rendezvous} that names who is missing at `deadline`, and what `check` throws, which is
  // called now and then, and with patience when a connection was lost.
  void connect(
      std::chrono::steady_clock::time_point deadline,
      const std::function<void(std::chrono::milliseconds)>& check = [](auto) {});
  // On the background thread.
  void accepted(int peer, PeerConnections::Socket socket);
  void commanded(PeerConnections::Socket launcher);  // by one frame, the verdict that it proposes

  // Any thread. The verdict stays once it is there.
  bool failed() const { return failed_.load(std::memory_order_acquire); }  // error() will not wait for long
  // The verdict; waits for it two seconds at most, and one for what is done when_failed.
  Error error() const;
  void enroll(std::shared_ptr<FlightRecorder> recorder);         // a group of this rank, which is among the recorders
  void part(std::uint64_t group, std::uint64_t completed);       // from the group, after so many operations
  void needs(const Signature& signature);                        // somebody has left before this: who is needed?
  void waiting(const Signature& signature);                      // it does not get on: is anybody in another one?
  void stalled(const Signature& signature);                      // for so long that rank 0 should say so
  void overdue(const Signature& signature);                      // for so long that the world should end
  void suspect(int peer, std::uint64_t group, std::string how);  // the data connection with it ended
  void propose(Verdict verdict);
  void abort(Verdict verdict);  // the same, and from now on failed() here

  // Says goodbye to the world and closes every connection once the neighbours have heard it, `limit` at most. Any
  // thread but the background one; nothing else may be called afterwards.
  void leave(std::uint64_t completed, std::chrono::milliseconds limit);

 private:
  using Shared = std::shared_ptr<MessageChannel>;

  asio::awaitable<void> dial(int peer, std::chrono::steady_clock::time_point deadline);
  asio::awaitable<void> listen_to(int peer, Shared neighbour);
  asio::awaitable<void> obey(PeerConnections::Socket launcher);
  void take(int peer, std::string_view message);
  void beat();
  void tick();
  void ended(int peer, const std::string& how);
  template <class Change>
  void post(Change change);
  void settle();  // after every change of the council: send, publish, set the timer
  void publish();
  void fail();
  void warn_of_parted();
  std::optional<Signature> begun(std::uint64_t group, std::uint64_t sequence) const;
  FailureAgreement::Time now() const;
  bool all_sent() const;

  asio::io_context& context_;
  PeerConnections& peer_connections_;
  int rank_;
  std::vector<std::string> hosts_;
  FlightRecorders& recorders_;
  WhenFailed when_failed_;
  FailureAgreement council_;
  HeartbeatMonitor pulse_;
  StragglerDetector laggards_;
  TickClock clock_;
  std::vector<int> expected_;  // the neighbours' ranks
  std::map<int, Shared> neighbours_;
  asio::steady_timer timer_;
  bool leaving_ = false;
  std::atomic<bool> failed_{false};

  mutable std::mutex mutex_;  // over what follows, which other threads see
  mutable std::condition_variable changed_;
  std::optional<Verdict> verdict_;
  std::optional<Error> start_error_;
  std::vector<int> connected_;
  bool sent_ = false, closed_ = false, dealt_with_ = false;
};

}  // namespace anello
