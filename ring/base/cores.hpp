// The cores that processes may use: their affinity, and the quota of their control group. Any thread.
#pragma once
#include <string>

namespace anello {

struct Cores {
  std::string allowed;  // core c is bit c % 8 of byte c / 8; no zeros at the end
  double quota = 0;     // how many cores' time they may use

  double count() const;  // how many cores can be busy at once
  Cores without_quota() const;
  // Adds the cores of another process on this host. Assumes that both have the same quota in common.
  void unite(const Cores& other);
};

Cores available_cores();  // those that this thread may use

}  // namespace anello
