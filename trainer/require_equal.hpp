// Checks that all ranks have the same, so that a difference is an error and not a wrong result. Collective; blocks.
// Used by one thread of each rank.
#pragma once
#include <anello/world.hpp>
#include <cstdint>
#include <string_view>

#include "trainer/options.hpp"

namespace anello::trainer {

// Throws Error{mismatch} on every rank if a rank has other options than rank 0; it names the options, both values and
// the ranks.
void require_equal(World& world, const Facts& options);

// Throws Error{mismatch} on every rank if a rank has a different value than rank 0; it names `what`, rank and host.
void require_equal(World& world, std::uint64_t value, std::string_view what);

}  // namespace anello::trainer
