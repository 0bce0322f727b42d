// Which cores processes may use: their affinity, and the quota of their control group. Any thread.
#pragma once
#include <string>

namespace anello {

struct Cores {
  std::string allowed;  // core c is bit c % 8 of byte c / 8; no zeros at the end
  double quota = 0;     // as many as are busy all the time

  double count() const;  // how much can be busy at once
  // Of processes on one host, whose quota is taken to be a common one.
  void unite(const Cores& other);
};

Cores available_cores();  // to this thread

}  // namespace anello
