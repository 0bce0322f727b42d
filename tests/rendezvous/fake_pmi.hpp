// A process manager that speaks PMI-1 as MPICH's Hydra and Slurm's pmi2 plugin do, and accepts no more than both: lines
// of exactly the known forms, keys and values within the limits, each key once. What a real one would punish (an
// unknown command, a process that ends without finalize) is a complaint, and the connection is closed. It has a thread;
// its functions are for the test's thread.
#pragma once
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "ring/base/descriptor.hpp"

namespace anello {

class FakePmi {
 public:
  enum class Kind { hydra, slurm };
  FakePmi(Kind kind, int size);
  ~FakePmi();
  FakePmi(const FakePmi&) = delete;
  FakePmi& operator=(const FakePmi&) = delete;

  int fd(int rank) const { return processes_[std::size_t(rank)].get(); }
  // For a process with the socket, and for one that connects.
  std::vector<std::string> environment(int rank) const;
  std::vector<std::string> environment_with_port(int rank) const;
  void close_ends_of_processes();  // those of this process, so that the end of a started one is seen

  std::vector<std::string> complaints();
  int finalized();  // number of processes that have finalized

 private:
  struct Peer {
    Descriptor fd;
    int rank = -1;  // -1: it has connected, and has not said who it is
    bool greeted = false, finalized = false;
    std::string received;
  };
  void serve();
  void accept_one();
  void read_from(Peer& peer);
  std::string answer(Peer& peer, const std::string& line);  // empty: none, now or at all
  std::string put(const std::string& key, const std::string& value);
  std::string enter_barrier(const Peer& peer);
  void complain(Peer& peer, const std::string& about);

  const Kind kind_;
  const int size_;
  std::vector<Descriptor> processes_;
  Descriptor listener_, stop_, stopped_;
  int port_ = 0;
  std::mutex mutex_;
  std::deque<Peer> peers_;
  std::map<std::string, std::string> values_, put_;  // since the last barrier: not readable yet
  std::vector<const Peer*> waiting_;
  std::vector<std::string> complaints_;
  int finalized_ = 0;
  std::thread thread_;
};

}  // namespace anello
