// The control plane of a world: connections to the ranks at distances 2^i, separate from the connections for data. When
// ranks have left, it makes the connections that the remaining ranks need, in the background. It floods the
// FailureDetector's messages, sends and expects heartbeats, and publishes the verdict to the threads that move data.
// Runs on the background thread; functions that other threads may call are marked.
#pragma once
#include <asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ring/control/enrolled_groups.hpp"
#include "ring/control/neighbours.hpp"
#include "ring/control/pinger.hpp"
#include "ring/control/published_state.hpp"
#include "ring/failure/failure_detector.hpp"
#include "ring/link/group_info.hpp"
#include "ring/net/connections.hpp"
#include "ring/net/reserved_post.hpp"
#include "ring/trace/flight_recorders.hpp"

namespace anello::control {

class ControlPlane {
 public:
  // Called once with the verdict's message, on the background thread.
  using WhenFailed = std::function<void(const failure::Verdict& why)>;

  // If nothing is received from a neighbour for `silence_limit`, the world ends; 0: never.
  ControlPlane(asio::io_context& context, net::PeerConnections& peer_connections, const Identity& identity,
               std::vector<std::string> hosts, trace::FlightRecorders& recorders,
               std::chrono::milliseconds silence_limit, WhenFailed when_failed);

  // Connects to the neighbours with lower ranks and waits for the connections of neighbours with higher ranks. Any
  // thread except the background thread. At `deadline`, throws Error{network, unauthorized, rendezvous} that names the
  // missing ranks. Calls check(0) every 50 ms, and throws its errors. After a connection was lost, calls check(limit)
  // with the time for which it may block.
  void connect(
      std::chrono::steady_clock::time_point deadline,
      const std::function<void(std::chrono::milliseconds)>& check = [](auto) {});
  // The next two functions run on the background thread.
  void accepted(int peer, net::PeerConnections::Socket socket);
  // Reads the launcher's verdict, and proposes it as this rank's own.
  void receive_abort(net::PeerConnections::Socket launcher);

  // The following functions may be called on any thread. Only error() blocks. There is at most one verdict, and it
  // never changes.
  bool failed() const { return published_.failed(); }  // if true, error() waits only briefly
  // Returns the verdict. Waits for at most 3 s for it, and for at most 1 s for the end of WhenFailed.
  Error error() const { return published_.error(); }
  // Call when this rank has joined the group, which is in `recorders`.
  void enroll(std::shared_ptr<const link::GroupInfo> group);
  // `completed`: the number of operations that this rank has completed. leave_group() and leaves_by_exception()
  // allocate no memory.
  void leave_group(std::uint64_t group, std::uint64_t completed) noexcept;
  void leaves_by_exception() noexcept;  // from now on, goodbyes give an exception as the reason
  // Call when the operation began; reports a member that has left the group before this operation.
  void needs(const Signature& signature);
  // Call when an operation needs messages of all members. Reports a member that had completed at most `completed`
  // operations (UINT64_MAX: any number) when it left the group. `conflict`: describes this rank's call.
  void needs_messages(std::uint64_t group, std::uint64_t completed, std::string conflict);
  // Call when the operation makes no progress; finds out whether other ranks wait in a different operation.
  void waiting(const Signature& signature);
  void moving(const Signature& signature);  // call when this operation makes progress again
  // Call when a peer sent a different operation, which `verdict` describes. Asks all ranks for their calls.
  void differs(const NamedSignature& mine, int peer, const Signature& theirs, failure::Verdict verdict);
  // Call when these peers sent other counts than this rank expects; `verdict` describes one of the peers.
  void contradicts(const NamedSignature& mine, std::vector<int> peers, failure::Verdict verdict);
  // Call when a call of this rank's program was refused. Sends the reason to the ranks that wait for the operation.
  void refused(std::uint64_t group, std::uint64_t sequence, std::string reason);
  // Call when the operation made no progress for this time. stalled(): the lowest rank that is still in the world
  // reports the operation. overdue(): the world ends.
  void stalled(const Signature& signature, std::chrono::milliseconds period);
  void overdue(const Signature& signature, std::chrono::milliseconds limit);
  // Call when an operation has waited long for the peer. Checks whether the network between this rank and the peer
  // still works. A peer that does not answer within the silence limit counts as silent.
  void ping(int peer);
  void suspect(int peer, std::uint64_t group, std::string how);  // call when the data connection with the peer ended
  void propose(failure::Verdict verdict);
  void abort(failure::Verdict verdict);  // proposes `verdict`; failed() is true on this rank from now on
  // Like abort(), for a thread that is out of memory: the background thread makes the verdict.
  void abort_without_memory() noexcept;

  // Sends the goodbye to the world, and closes every connection after the neighbours have read it. Blocks for at most
  // the silence limit (10 s if there is none). In a world that has failed, blocks for at most 500 ms after it has sent
  // the reason. Allocates no memory. Any thread except the background thread. Must be the last call.
  void leave(std::uint64_t completed);

 private:
  static constexpr std::chrono::milliseconds kMaxIfFailed{500};
  // A message's kind and its body.
  static constexpr std::size_t kMaxMessageBytes = 1 + failure::ControlMessage::kMaxBytes;

  asio::awaitable<void> dial(int peer, std::chrono::steady_clock::time_point deadline);
  asio::awaitable<void> mend(int peer);
  asio::awaitable<void> receive_messages(int peer, Neighbours::Channel neighbour);
  asio::awaitable<void> read_abort(net::PeerConnections::Socket launcher);
  void handle(int peer, std::string_view message);
  void receive_frame(int peer, std::string_view body);
  void check_standstill();
  void tick();
  void beat();
  void disconnected(int peer, const std::string& how);
  template <class Change>
  void post(Change change);
  template <class Change>
  void post(net::ReservedPost& place, Change change) noexcept;
  void flush();  // call after every event: sends messages, logs reports, publishes the verdict, sets the timer
  void publish();
  std::chrono::milliseconds slept() const;
  failure::FailureDetector::Time now() const;

  asio::io_context& context_;
  net::PeerConnections& peer_connections_;
  int rank_;
  std::vector<std::string> hosts_;
  trace::FlightRecorders& recorders_;
  trace::TickClock clock_;
  WhenFailed when_failed_;
  EnrolledGroups groups_;
  failure::FailureDetector detector_;
  Neighbours neighbours_;
  Pinger pinger_;
  std::vector<int> expected_;  // the neighbours' ranks at the start
  asio::steady_timer timer_;
  bool leaving_ = false;
  net::ReservedPost abort_, exception_, goodbye_, end_;
  PublishedState published_;
};

}  // namespace anello::control
