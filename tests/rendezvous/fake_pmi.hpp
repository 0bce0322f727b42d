// A process manager with PMI-1, like MPICH's Hydra and Slurm's pmi2 plugin. It accepts only messages that both accept:
// lines in exactly the documented forms, keys and values within the limits, each key once. For a mistake that a real
// manager would punish (an unknown command, a process that ends without finalize), it records a complaint and closes
// the connection. It has a thread of its own; its functions are for the test's thread.
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
  // The environment of a process that inherits the socket, or of a process that connects.
  std::vector<std::string> environment(int rank) const;
  std::vector<std::string> environment_with_port(int rank) const;
  void close_ends_of_processes();  // closes this process's copies, so that the end of a started process is noticed

  std::vector<std::string> complaints();
  int finalized();  // number of processes that have finalized

 private:
  struct Peer {
    Descriptor fd;
    int rank = -1;  // -1: the process has connected, but has not sent its id yet
    bool greeted = false, finalized = false;
    std::string received;
  };
  void serve();
  void accept_one();
  void read_from(Peer& peer);
  std::string answer(Peer& peer, const std::string& line);  // empty: no answer, now or at all
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
  std::map<std::string, std::string> values_, put_;  // put since the last barrier: not readable yet
  std::vector<const Peer*> waiting_;
  std::vector<std::string> complaints_;
  int finalized_ = 0;
  std::thread thread_;
};

}  // namespace anello
