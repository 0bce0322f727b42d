// A process's connection with its process manager in PMI-1, as MPICH's mpiexec (Hydra) and `srun --mpi=pmi2` offer it:
// each request is one line, to which the manager answers with one line. One thread; all functions block.
//
// All throw Error{network} if the connection ends, Error{protocol} if the answer is malformed, and Error{timed_out};
// the messages name the manager. After such an error the connection cannot be used.
#pragma once
#include <chrono>
#include <string>
#include <string_view>

#include "rendezvous/join/pmi_message.hpp"

namespace anello::rendezvous {

struct PmiLink {
  int fd = -1;              // a connected socket; it is only borrowed
  int rank = -1, size = 0;  // from the environment; otherwise the process sends `id`, and the manager answers with them
  std::string id;
  std::string manager = "the process manager";  // for messages
};

class PmiClient {
 public:
  // Agrees on the version and asks for the limits and the name of the job's key-value space. `limit` is for each
  // answer.
  PmiClient(const PmiLink& link, std::chrono::milliseconds limit);

  int rank() const { return link_.rank; }
  int size() const { return link_.size; }
  const std::string& space() const { return space_; }  // name of the job's key-value space
  const std::string& manager() const { return link_.manager; }
  void set_limit(std::chrono::milliseconds limit) { limit_ = limit; }

  // Also throws Error{unsupported} if the manager does not take keys or values of that length.
  void put(const std::string& key, const std::string& value);
  void barrier();
  // Throws Error{protocol} that names the key if no process has put it; the connection can be used after that.
  std::string get(const std::string& key);
  // Informs the manager that this process may now end without ending the job. Waits for the answer for at most a
  // second.
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
  unsigned long inode_ = 0;  // the socket's inode; shows whether another file has got its number since
  std::string space_, received_, failure_;
  long max_key_ = 0, max_value_ = 0;
};

}  // namespace anello::rendezvous
