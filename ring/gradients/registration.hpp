// The gradients of all ranks must be the same ones. Collective.
#pragma once
#include <anello/gradients.hpp>

namespace anello {

// Throws Error{invalid_argument} for what can be no list of gradients; Error{mismatch} on all ranks if one of them has
// another list or other options than rank 0, with the first difference.
void check_registration(Group& group, std::span<const Gradient> gradients, const GradientOptions& options);

}  // namespace anello
