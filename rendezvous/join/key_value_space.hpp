// The key-value space that a process manager (PMI, PMIx) offers to the processes of one job: each process puts values
// under keys of its own, all meet at a fence, and each may then read what any of them has put before that fence. Ranks
// that a process manager started find each other through it, so a value may be the job's secret: the process manager
// keeps it from other users. Owned and used by one thread.
#pragma once
#include <string>

namespace anello::rendezvous {

class KeyValueSpace {
 public:
  virtual ~KeyValueSpace() = default;
  KeyValueSpace() = default;
  KeyValueSpace(const KeyValueSpace&) = delete;
  KeyValueSpace& operator=(const KeyValueSpace&) = delete;

  // This process's number among the processes of the job, from 0, and how many they are.
  virtual int rank() const = 0;
  virtual int size() const = 0;
  // Name of the job: equal on all its processes, and different from that of any other job that runs at the same time.
  virtual std::string name() const = 0;

  // Keys have up to 32 letters, digits, '-' and '_'; values up to 256 printable ASCII characters except blanks, '='
  // and ';' (a PMI message could not carry more). A key is put once.
  // All throw Error{network} if the process manager fails or does not answer, and Error{timed_out} if it takes longer
  // than the limit that the space was opened with; the message names the process manager.
  virtual void put(const std::string& key, const std::string& value) = 0;
  // Blocks until every process of the job has called it.
  virtual void fence() = 0;
  // The value that some process put before the last fence. Throws Error{protocol} that names the key if there is none.
  virtual std::string get(const std::string& key) = 0;
};

}  // namespace anello::rendezvous
