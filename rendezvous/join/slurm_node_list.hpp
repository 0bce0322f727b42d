// Slurm's notation for lists of hosts and for lists of numbers of tasks. Pure.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace anello::rendezvous {

// Expands "h[0-2,07],gpu1" to single names, in order, at least one. If the list cannot be parsed, or has more than
// 65536 hosts, throws Error{configuration} that names `variable` and the list.
std::vector<std::string> expand_slurm_nodes(std::string_view variable, std::string_view list);
// Expands "2(x3),1" to single numbers. Throws like expand_slurm_nodes().
std::vector<int> expand_slurm_counts(std::string_view variable, std::string_view list);

}  // namespace anello::rendezvous
