// The cores that processes may use, according to their affinity and the quota of their control group. Any thread.
#pragma once
#include <string>

namespace anello {

struct Cores {
  std::string allowed;  // bit mask: core c is bit c % 8 of byte c / 8; no zero bytes at the end
  double quota = 0;     // core time that the processes may use, in seconds per second: 1.5 is one and a half cores

  double count() const;  // returns how many cores can be busy at once
  Cores without_quota() const;
  // Adds the cores of another process on this host. Assumes that the two processes share one quota.
  void unite(const Cores& other);
};

Cores available_cores();  // the cores that this thread may use

}  // namespace anello
