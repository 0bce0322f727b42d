// Compares the entries of all ranks by their hashes. Pure; any thread.
#pragma once
#include <string>
#include <vector>

#include "ring/elastic/decision.hpp"

namespace anello::elastic {

// `hashes`: by rank, then by entry. Throws Error{diverged} with the first entry that differs and the ranks. If sources
// differ, the ranks outside of their majority are at fault, because receivers have only what sources sent. If the
// sources agree, the receivers that differ are at fault.
void require_equal_entries(const std::vector<std::string>& names, const std::vector<std::vector<Hash>>& hashes,
                           const Decision& decision);

}  // namespace anello::elastic
