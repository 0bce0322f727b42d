// The control plane of a world: connections to the ranks 2^i away, apart from the data, on which the Council's frames
// are flooded. Lives on the background thread; the functions marked so may be called from any.
#pragma once
#include <asio/steady_timer.hpp>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "ring/failure/council.hpp"
#include "ring/failure/laggards.hpp"
#include "ring/failure/pulse.hpp"
#include "ring/link/wait.hpp"
#include "ring/net/mesh.hpp"
#include "ring/trace/ledgers.hpp"

namespace anello {

class Control {
 public:
  // Once there is a verdict: its message, on the background thread.
  using WhenFailed = std::function<void(const std::string& why)>;

  // Who is not heard for `silence_limit` ends the world; 0: nobody does so.
  Control(asio::io_context& context, Mesh& mesh, const Identity& identity, std::vector<std::string> hosts,
          Ledgers& ledgers, std::chrono::milliseconds silence_limit, WhenFailed when_failed);

  // Connects to the neighbours of lower rank and waits for those of higher. Any thread but the background one; throws
  // Error{network, unauthorized, rendezvous} that names who is missing at `deadline`, and what `check` throws, which is
  // called now and then, and with patience when a connection was lost.
  void connect(
      std::chrono::steady_clock::time_point deadline,
      const std::function<void(std::chrono::milliseconds)>& check = [](auto) {});
  // On the background thread.
  void accepted(int peer, Mesh::Socket socket);
  void commanded(Mesh::Socket launcher);  // by one frame, the verdict that it proposes

  // Any thread. The verdict stays once it is there.
  bool failed() const { return failed_.load(std::memory_order_acquire); }  // error() will not wait for long
  // The verdict; waits for it two seconds at most, and one for what is done when_failed.
  Error error() const;
  void enroll(std::shared_ptr<Ledger> ledger);                   // a group of this rank, which is among the ledgers
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
  struct Neighbour {
    explicit Neighbour(Mesh::Socket s) : socket(std::move(s)) {}
    Mesh::Socket socket;
    std::deque<std::string> queue;
    bool writing = false;
  };
  using Shared = std::shared_ptr<Neighbour>;

  asio::awaitable<void> dial(int peer, std::chrono::steady_clock::time_point deadline);
  asio::awaitable<void> listen_to(int peer, Shared neighbour);
  asio::awaitable<void> obey(Mesh::Socket launcher);
  void take(int peer, std::string_view message);
  void beat();
  void tick();
  asio::awaitable<void> write_queue(Shared neighbour);
  void ended(int peer, const std::string& how);
  template <class Change>
  void post(Change change);
  void settle();  // after every change of the council: send, publish, set the timer
  void publish();
  void fail();
  void warn_of_parted();
  std::optional<Signature> begun(std::uint64_t group, std::uint64_t sequence) const;
  Council::Time now() const;
  bool all_sent() const;

  asio::io_context& context_;
  Mesh& mesh_;
  int rank_;
  std::vector<std::string> hosts_;
  Ledgers& ledgers_;
  WhenFailed when_failed_;
  Council council_;
  Pulse pulse_;
  Laggards laggards_;
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
