// The control plane of a world: connections to the ranks 2^i away, apart from the data, on which the Council's frames
// are flooded. Lives on the background thread; the functions marked so may be called from any.
#pragma once
#include <asio/steady_timer.hpp>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "ring/net/council.hpp"
#include "ring/net/ledger.hpp"
#include "ring/net/mesh.hpp"
#include "ring/net/wait.hpp"

namespace anello {

class Control {
 public:
  Control(asio::io_context& context, Mesh& mesh, const Identity& identity, std::vector<std::string> hosts);

  // Connects to the neighbours of lower rank and waits for those of higher. Any thread but the background one; throws
  // Error{network, unauthorized, rendezvous} that names who is missing at `deadline`.
  void connect(std::chrono::steady_clock::time_point deadline);
  void accepted(int peer, Mesh::Socket socket);  // on the background thread

  // Any thread. The verdict stays once it is there.
  bool failed() const { return failed_.load(std::memory_order_acquire); }  // error() will not wait for long
  Error error() const;                          // the verdict; waits for it two seconds at most
  void enroll(std::shared_ptr<Ledger> ledger);  // a group of this rank; its bell rings when there is a verdict
  void part(std::uint64_t group, std::uint64_t completed);       // from the group, after so many operations
  void begin(Ledger& ledger, const Signature& signature);        // it starts: has anybody left who is needed?
  void waiting(const Signature& signature);                      // it does not get on: is anybody in another one?
  void stalled(const Signature& signature);                      // for so long that rank 0 should say so
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
  asio::awaitable<std::string> read_frame(Mesh::Socket& socket);
  asio::awaitable<void> write_queue(Shared neighbour);
  void ended(int peer, const std::string& how);
  template <class Change>
  void post(Change change);
  void settle();  // after every change of the council: send, publish, set the timer
  void publish();
  void warn_of_parted();
  std::optional<Signature> begun(std::uint64_t group, std::uint64_t sequence) const;
  Council::Time now() const;
  bool all_sent() const;

  asio::io_context& context_;
  Mesh& mesh_;
  int rank_;
  std::vector<std::string> hosts_;
  Council council_;
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
  std::map<std::uint64_t, std::shared_ptr<Ledger>> ledgers_;  // by group
  bool sent_ = false, closed_ = false;
};

}  // namespace anello
