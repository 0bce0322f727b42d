// The connection of a process of an elastic job with the rendezvous server. It stays open from world to world. If the
// connection ends, the world goes on, but the process cannot enter another world at this server. A background thread
// answers the server while the program computes. The other functions belong to the thread that makes the worlds, and
// block.
#pragma once
#include <anello/settings.hpp>
#include <asio/awaitable.hpp>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/client/commit_gate.hpp"
#include "rendezvous/client/leave_notice.hpp"
#include "rendezvous/client/server_connection.hpp"
#include "ring/base/identity.hpp"
#include "ring/base/mutex.hpp"
#include "ring/net/event_loop.hpp"
#include "ring/net/message_channel.hpp"

namespace anello::rendezvous {

// Thrown if the process of the server has certainly ended: its kernel has closed the connection, and refuses a new one.
// A server that is only silent may still bring other processes together.
struct ServerGone : Error {
  using Error::Error;
};

// A process takes this along when it goes from one server to the successor of that server.
struct Transfer {
  KnownServer to;
  Identity identity;                // this process's identity in the newest world
  std::chrono::milliseconds limit;  // limit of the search for the successor
  std::chrono::milliseconds silence;
};

class StandingConnection {
 public:
  // Connects to settings.rendezvous and joins. Blocks for start_timeout at most. Throws the errors of ServerConnection.
  StandingConnection(const Settings& settings, std::string secret);
  // Connects to the successor of another server instead. settings.rank is the rank in the last world. Throws also
  // MeetAgain.
  StandingConnection(const Settings& settings, const Transfer& transfer);
  ~StandingConnection();
  StandingConnection(const StandingConnection&) = delete;
  StandingConnection& operator=(const StandingConnection&) = delete;

  // Enters the next world, and returns this process's place in it; `generation`: the number of the world in which this
  // process was before, or 0. Blocks until every process of the last world has entered or ended, and until enough
  // processes are there. Returns nothing if the others have finished. Throws the server's error. If the server has
  // ended, throws ServerGone. If the connection has ended although the server perhaps has not, or if the server does
  // not answer for a minute, throws Error{rendezvous}. At a successor, throws MeetAgain for these reasons until the
  // successor has given a place to this process.
  std::optional<Assigned> enter(std::uint32_t generation);
  const Identity& identity() const { return identity_; }  // this process's identity in the newest world
  void pass_on(LeaveNotice& notice);  // when the notice comes, asks the server to let this process leave

  // See RendezvousClient.
  std::vector<std::string> exchange(std::string blob);
  void check(std::chrono::milliseconds patience);

  // Returns true if the start of the newest world has ended without success, or does so within `patience`. Then enter()
  // enters the next world, or throws the reason why this process cannot enter it.
  bool start_is_over(std::chrono::milliseconds patience);

  void leave(std::uint16_t port);        // reports that this rank's part of the world is complete
  void begin(std::uint64_t commits);     // reports that this process has the state of this commit, and begins to train
  void fail(const std::string& reason);  // reports that this process ends, because it cannot start
  // Reports that `rank` cannot be reached; the server decides which of the two goes on.
  void blame(int rank, const std::string& reason);
  void done();  // reports that this process's training has ended

  // Call this after each commit, with the number of commits. Returns true if the world ends at this commit as planned.
  // Returns at once unless a change is being planned; then it may block until the other processes have answered.
  bool ends_after(std::uint64_t commits);
  // True if the world will end at one of the next commits, because processes join or leave.
  bool change_is_planned() const;

 private:
  void begin(ServerConnection& connection, int local_rank);
  asio::awaitable<void> receive();
  asio::awaitable<bool> server_has_ended();
  void take(const Reply& reply) ANELLO_REQUIRES(mutex_);
  void send(const Request& request);
  void send_last(const Request& request);
  // Waits for the next answer, and removes it. `enters`: true if enter() waits; then it is no error that the last start
  // has ended.
  Reply await(std::chrono::steady_clock::time_point deadline, bool enters);
  void throw_if_over() const ANELLO_REQUIRES(mutex_);
  void throw_if_lost() const ANELLO_REQUIRES(mutex_);
  [[noreturn]] void throw_as_silent() const ANELLO_REQUIRES(mutex_);

  const Settings settings_;
  Identity identity_;
  mutable Mutex mutex_;
  std::condition_variable changed_;
  std::deque<Reply> answers_ ANELLO_GUARDED_BY(mutex_);
  CommitGate gate_ ANELLO_GUARDED_BY(mutex_);
  std::uint64_t commits_ ANELLO_GUARDED_BY(mutex_) = 0;
  std::string again_ ANELLO_GUARDED_BY(mutex_);              // why the newest world cannot start; empty: it can start
  bool sent_away_ ANELLO_GUARDED_BY(mutex_) = false;         // true if another process is the server now
  bool over_ ANELLO_GUARDED_BY(mutex_) = false;              // true if this process's part in the job has ended
  std::optional<Failed> refused_ ANELLO_GUARDED_BY(mutex_);  // why this process cannot go on
  std::string lost_ ANELLO_GUARDED_BY(mutex_);               // why the connection has ended; empty: it has not
  bool gone_ ANELLO_GUARDED_BY(mutex_) = false;              // true if the server has ended
  bool transfers_ ANELLO_GUARDED_BY(mutex_) = false;         // true until a successor has given a place to this process
  bool may_be_succeeded_ ANELLO_GUARDED_BY(mutex_) = false;  // true if another process goes on as the server
  std::chrono::steady_clock::time_point last_message_ ANELLO_GUARDED_BY(mutex_);
  // A server that is silent for this time while this process waits counts as stopped.
  std::chrono::milliseconds silence_ ANELLO_GUARDED_BY(mutex_);
  asio::ip::tcp::endpoint server_;
  net::EventLoop event_loop_;                     // its thread uses the other members, and is stopped first
  std::shared_ptr<net::MessageChannel> channel_;  // used on that thread; destroyed before the loop
};

}  // namespace anello::rendezvous
