// The rendezvous server brings the ranks of one job together. It is needed only while a world starts. It owns a thread
// and a listener; any thread may construct and destroy it. It uses sockets and the roster, but no tensors. It serves
// one world at a time. Ranks of the next world may join when all ranks have left, or when the start-up has failed. The
// server of an elastic job keeps the connections of its ranks, and brings the living ranks together again and again.
#pragma once
#include <anello/error.hpp>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/protocol/lineage.hpp"
#include "ring/trace/rejected_connections.hpp"

namespace anello {

// The limits of an elastic job, in which ranks may end and others join.
struct ElasticLimits {
  int min = 1, max = 1 << 20;                  // ranks of a world
  int first = 1;                               // processes for which the first world waits, from min to max
  std::chrono::milliseconds patience{600000};  // how long the job waits while it has fewer than min processes
  std::chrono::milliseconds silence{5000};     // a process that does not answer for this time loses its place
  bool may_be_succeeded = false;               // true if a process goes on as the server when this one ends
};

struct ServerOptions {
  std::string listen_address = "127.0.0.1";  // an address or a name; without a secret only loopback is accepted
  std::uint16_t port = 0;                    // 0: any free port
  std::string job = "default";
  std::string secret;
  int size = 0;                          // number of ranks; 0: the first rank to join decides
  std::optional<ElasticLimits> elastic;  // if set, the job is elastic, and `size` is ignored
  bool heir = false;  // true: a process of an elastic job runs it, and it serves only after succeed()
  std::chrono::milliseconds start_timeout{
      60000};  // limit for each time that ranks wait for each other; each rank also has its own limit
  std::chrono::milliseconds remind_after{10000};  // time between two lines that log the missing ranks
  std::string metrics;                            // "host:port" that serves the counters to Prometheus; empty: none
  bool may_be_mixed = false;  // true if a person names the job: ranks of two jobs may then join, and a warning says so
  std::size_t max_half_open = 1024;  // maximum number of connections that have not joined; one more closes the oldest
};

// The server's state and counters at one moment.
struct ServerStats {
  std::uint32_t generation = 1;                               // number of the world that gathers or starts
  std::size_t members = 0;                                    // ranks that have joined this world and not left
  bool starting = false;                                      // all ranks of this world have joined
  int worlds_formed = 0;                                      // worlds whose ranks have all left in good order
  trace::RejectedConnections::Counts rejected_connections{};  // connections that ended before they had joined
  std::size_t half_open = 0;                                  // connections that have not joined yet
  std::size_t reachable = 0;  // ranks of the newest world that have left the rendezvous and can receive an abort notice
  std::uint32_t newest = 0;   // number of the newest world that all its ranks have joined; 0: none
  bool concluded = false;  // true after conclude(), once all ranks have received the reason or another start has begun
  std::string last_failure;  // why the last start-up failed; empty after a success
};

// An elastic job at one moment.
struct ElasticStatus {
  struct Process {
    int place;        // ANELLO_PLACE, or -1
    int rank;         // the process's rank in the newest world; -1: it was in no world yet
    std::int64_t id;  // a number that no other process of this server has
    bool awaited;     // true if the next world cannot begin before this process has entered or ended
    bool retires;     // true if it leaves at the next commit
    bool trained;     // true if it has trained in a world
  };
  std::uint32_t generation = 0;          // number of the newest world; 0: none
  int worlds_formed = 0;                 // number of worlds that all their ranks have completed
  bool begun = false;                    // true if a world has begun to train
  bool finished = false;                 // true if a process has finished its training
  std::vector<Process> processes;        // all processes that have joined, and neither ended nor finished
  std::map<int, std::int64_t> released;  // by place: the id of the newest process that has left because it was asked to
  bool lost = false;  // true if all processes that had the state of a training have ended; then `begun` is false
  struct Seat {
    int place;
    std::int64_t id;
  };
  std::map<std::uint32_t, std::vector<Seat>> ranks;  // by number of one of the newest worlds, then by rank
};

class RendezvousServer {
 public:
  // The server listens when the constructor returns. Throws Error{network} that names the address and port, and
  // Error{unsupported} like require_usable(). If the address is not loopback and there is no secret, throws
  // Error{configuration}.
  explicit RendezvousServer(const ServerOptions& options);
  ~RendezvousServer();  // closes every connection and ends the thread
  RendezvousServer(const RendezvousServer&) = delete;
  RendezvousServer& operator=(const RendezvousServer&) = delete;

  std::uint16_t port() const;
  // Returns a numeric address for ranks. If the server listens on all addresses, returns one that other hosts can use,
  // if there is one.
  std::string address() const;
  ServerStats stats() const;             // any thread
  ElasticStatus elastic_status() const;  // empty if the job is not elastic; any thread
  // Blocks until this generation's world has formed or its start-up has failed; then returns true. Returns false after
  // `limit`. Any thread.
  bool wait_until_over(std::uint32_t generation, std::chrono::milliseconds limit) const;

  // Makes the processes with this number at their launcher (ANELLO_PLACE) leave the elastic job at their next commit.
  // Any thread; does not block.
  void retire(int place);
  // `newcomers`: how many processes the launcher has started that have neither joined the elastic job nor ended. A
  // change of a running world waits for them, for 30 s at most, so that all enter by one change. After a failure of a
  // world, no change waits for them. Any thread; does not block.
  void expect(int newcomers);
  // For the server of an heir (ServerOptions::heir): sets the newest facts that the heir's process has received.
  // `newest`: number of the newest world for which the process was chosen. Processes of the last world may join from
  // now on, and wait. Any thread; does not block.
  void inherit(rendezvous::Lineage lineage, const ElasticLimits& limits, std::uint32_t newest, bool begun);
  // Serves as the successor of the job's server, which has ended. Looks for the processes of the last world. If a
  // process that had a lower rank in that world is present, sends all processes away. Any thread; does not block.
  void succeed();
  // Sends away all processes that have joined, because this process goes to another successor. Any thread; does not
  // block.
  void step_back();
  // For a successor whose own process has left the job: the other processes end their next world at a commit, and are
  // then sent away to find the next successor. After that the server has no processes. Any thread; does not block.
  void hand_over();

  // Call this when the process of this rank has ended. A start that waits for this rank then fails at once. Any thread;
  // does not block.
  void exited(int rank);

  // Call this when the start-up has failed and the server will close soon. Ranks that have joined, or join later,
  // receive this error. `by`: the rank of this process. Any thread; does not block.
  void conclude(const Error& why, int by);
  // Call after conclude(). Blocks until stats().concluded is true, for at most `limit`. Any thread.
  void wait_until_concluded(std::chrono::milliseconds limit) const;

  // Ends the newest world with Error{aborted}, whether it starts or runs. Every rank receives the reason and the
  // culprit's rank, or -1. Any thread; does not block. Returns false if there is no rank to notify.
  bool abort(int culprit, const std::string& reason);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace anello
