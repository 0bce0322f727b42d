// The cores that processes may use, by their affinity and by the quota of their control group. Any thread.
#pragma once
#include <string>

namespace anello {

struct Cores {
  std::string allowed;  // core c is bit c % 8 of byte c / 8; no zeros at the end
  double quota = 0;     // how much core time a second they may use: 1.5 is one and a half cores

  double count() const;  // how many cores can be busy at once
  Cores without_quota() const;
  // Adds the cores of another process on this host. Assumes that the two processes share one quota.
  void unite(const Cores& other);
};

Cores available_cores();  // the cores that this thread may use

}  // namespace anello
