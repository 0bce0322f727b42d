// The key-value space that a process manager (PMI, PMIx) offers to the processes of one job. Each process puts values
// under its own keys, then all processes meet at a fence. After the fence, each process may read the values that any
// process put before it. Ranks that a process manager started find each other through the space. A value may be the
// job's secret, because the process manager hides values from other users. Owned and used by one thread.
#pragma once
#include <string>

namespace anello::rendezvous {

class KeyValueSpace {
 public:
  virtual ~KeyValueSpace() = default;
  KeyValueSpace() = default;
  KeyValueSpace(const KeyValueSpace&) = delete;
  KeyValueSpace& operator=(const KeyValueSpace&) = delete;

  // This process's number in the job, from 0, and the number of the job's processes.
  virtual int rank() const = 0;
  virtual int size() const = 0;
  // The name of the job. It is equal on all processes of the job, and differs from the names of all other jobs at the
  // same time.
  virtual std::string name() const = 0;

  // Keys have up to 32 letters, digits, '-' and '_'. Values have up to 256 printable ASCII characters, but no blank,
  // '=' or ';', because a PMI message could not carry them. A key is put only once. All functions throw Error{network}
  // if the process manager fails or does not answer, and Error{timed_out} if an answer takes longer than the limit with
  // which the space was opened. The message names the process manager.
  virtual void put(const std::string& key, const std::string& value) = 0;
  // Blocks until every process of the job has called fence().
  virtual void fence() = 0;
  // Returns the value that a process put under this key before the last fence. If there is none, throws Error{protocol}
  // that names the key.
  virtual std::string get(const std::string& key) = 0;
};

}  // namespace anello::rendezvous
