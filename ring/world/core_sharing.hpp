// Finds out whether each rank has its own core. Checks each host and each machine, because containers and network
// namespaces count as hosts but may share the cores of one machine. Pure.
#pragma once
#include <map>
#include <set>
#include <string>

#include "ring/base/cores.hpp"

namespace anello::world {

class CoreSharing {
 public:
  // Adds a rank on `host` that may use `cores`. `kernel`: a text that is equal for all hosts on one machine; empty if
  // the text could not be found out.
  void add(int host, const std::string& kernel, const Cores& cores);

  bool on_host(int host) const;  // true if the host or its machine has fewer cores than ranks
  bool on_some_host() const;     // true if a host has more ranks than cores
  // True if each rank may use only one of its host's cores, and only its neighbours may use this core too.
  bool ranks_are_bound() const;
  // True if several hosts, such as containers, are on this host's machine, and together have more ranks than the
  // machine has cores.
  bool on_shared_machine(int host) const;

 private:
  struct Load {
    int ranks = 0;
    Cores cores;
    bool is_bound = true;
    std::string last;  // cores of the rank that was added last
    void add(const Cores& of_rank);
    bool is_too_much() const { return ranks > cores.count(); }
  };
  struct Machine {
    Load load;
    std::set<int> hosts;
    bool is_shared() const { return hosts.size() > 1 && load.is_too_much(); }
  };
  std::map<int, Load> hosts_;
  std::map<std::string, Machine> machines_;  // by kernel: the machine that runs it
};

}  // namespace anello::world
