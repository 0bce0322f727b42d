// Whether ranks have cores of their own, on each host and on each machine: containers and network namespaces are hosts
// that may share the cores of one machine. Pure.
#pragma once
#include <map>
#include <set>
#include <string>

#include "ring/base/cores.hpp"

namespace anello::world {

class CoreSharing {
 public:
  // A rank on this host, where it may use these cores. `kernel` is equal for hosts that are one machine's; empty: not
  // known.
  void add(int host, const std::string& kernel, const Cores& cores);

  bool on_host(int host) const;  // its ranks do not have a core each, or its machine's do not
  bool on_some_host() const;     // there are more ranks than the host's own cores
  // The host's machine has other hosts too, and fewer cores than ranks.
  bool on_shared_machine(int host) const;

 private:
  struct Load {
    int ranks = 0;
    Cores cores;
    void add(const Cores& of_rank);
    bool is_too_much() const { return ranks > cores.count(); }
  };
  struct Machine {
    Load load;
    std::set<int> hosts;
    bool is_shared() const { return hosts.size() > 1 && load.is_too_much(); }
  };
  std::map<int, Load> hosts_;
  std::map<std::string, Machine> machines_;  // by kernel
};

}  // namespace anello::world
