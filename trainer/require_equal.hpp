// Checks that a value is equal on all ranks, so that a difference causes an error and not a wrong result. Collective;
// blocks. Used by one thread of each rank.
#pragma once
#include <anello/world.hpp>
#include <cstdint>
#include <string_view>

#include "trainer/options.hpp"

namespace anello::trainer {

// Throws Error{mismatch} on every rank if the options differ. If a majority of ranks agrees, the other ranks are at
// fault. The message names the options, both values, the ranks at fault and their hosts.
void require_equal(World& world, const Facts& options);

// Compares one value in the same way. `what`: the value's name in the message, a plural.
void require_equal(World& world, std::uint64_t value, std::string_view what);

}  // namespace anello::trainer
