// Slurm's notation for lists of hosts and for lists of numbers of tasks. Pure.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace anello::rendezvous {

// "h[0-2,07],gpu1" as single names, in order, at least one. Throws Error{configuration} that names `variable` and the
// list if it cannot be understood, or has more than 65536 hosts.
std::vector<std::string> expand_slurm_nodes(std::string_view variable, std::string_view list);
// "2(x3),1" as single numbers. Throws as expand_slurm_nodes() does.
std::vector<int> expand_slurm_counts(std::string_view variable, std::string_view list);

}  // namespace anello::rendezvous
