// A process's connection with its process manager by PMI-1, which MPICH's mpiexec (Hydra) and `srun --mpi=pmi2` offer.
// Each request is one line, and the manager answers with one line. One thread; all functions block.
//
// All functions throw Error{network} if the connection ends, Error{protocol} if the answer is malformed, and
// Error{timed_out}; the messages name the manager. After such an error the connection cannot be used.
#pragma once
#include <chrono>
#include <string>
#include <string_view>

#include "rendezvous/join/pmi_message.hpp"

namespace anello::rendezvous {

struct PmiLink {
  int fd = -1;  // a connected, borrowed socket
  // Rank and size from the environment. If the environment lacks them, the manager sends both after it got `id`.
  int rank = -1, size = 0;
  std::string id;
  std::string manager = "the process manager";  // name for error messages
};

class PmiClient {
 public:
  // Agrees on the version, and asks for the limits and for the name of the job's key-value space. `limit`: the time
  // limit for each answer.
  PmiClient(const PmiLink& link, std::chrono::milliseconds limit);

  int rank() const { return link_.rank; }
  int size() const { return link_.size; }
  const std::string& space() const { return space_; }  // name of the job's key-value space
  const std::string& manager() const { return link_.manager; }
  void set_limit(std::chrono::milliseconds limit) { limit_ = limit; }

  // Also throws Error{unsupported} if the manager does not accept keys or values of this length.
  void put(const std::string& key, const std::string& value);
  void barrier();
  // If no process has put the key, throws Error{protocol} that names the key; the connection can still be used.
  std::string get(const std::string& key);
  // Informs the manager that this process may end without ending the job. Waits at most one second for the answer.
  void finalize() noexcept;

 private:
  using Clock = std::chrono::steady_clock;

  void introduce();
  void agree_on_version();
  void ask_for_limits();
  PmiMessage ask(const std::string& request, std::string_view answer);
  void send(std::string_view bytes, Clock::time_point deadline);
  PmiMessage receive(Clock::time_point deadline);
  PmiMessage expect(const PmiMessage& message, std::string_view command) const;
  void wait_for(short event, Clock::time_point deadline) const;
  void check_connection() const;
  template <class Action>
  auto guarded(Action action);

  PmiLink link_;
  std::chrono::milliseconds limit_;
  unsigned long inode_ = 0;  // the socket's inode; if the descriptor now has another inode, it is another file's
  std::string space_, received_, failure_;
  long max_key_ = 0, max_value_ = 0;
};

}  // namespace anello::rendezvous
