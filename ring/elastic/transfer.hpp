// Copies memory from the ranks that have the newest state to the ranks that lack it. A collective of the world's ranks;
// uses the thread that calls it, and the world's progress thread.
#pragma once
#include <anello/world.hpp>
#include <optional>
#include <span>
#include <vector>

#include "ring/base/bytes.hpp"
#include "ring/elastic/decision.hpp"

namespace anello::elastic {

// Returns the group of this source and these receivers, in this order. Returns nothing if this rank is not one of them,
// or if there is no receiver.
std::optional<Group> group_of(World& world, int source, const std::vector<int>& receivers);

// Blocks until this rank's part is done: each source sends a stripe of the memory (stripes.hpp) to the receivers, and
// receives nothing. All ranks give runs of the same sizes; the runs of all sources have equal contents. Returns groups.
// The caller must keep them until all ranks have passed a later collective: if a rank left a group earlier, ranks that
// still use the group would fail. Throws the errors of broadcasts.
[[nodiscard]] std::vector<Group> transfer(World& world, const Decision& decision, std::span<const Bytes> memory);

std::uint64_t total_bytes(std::span<const Bytes> memory);

}  // namespace anello::elastic
