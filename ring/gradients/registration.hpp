// The start of Gradients and of GpuGradients: checks that the gradients and options are valid, and the same on all
// ranks. Collective.
#pragma once
#include <anello/gradients.hpp>
#include <string_view>

#include "ring/gradients/bucket_schedule.hpp"

namespace anello::gradients {

// All ranks of the group call. Returns the maximum size of a bucket in bytes: bucket_bytes of the options, otherwise
// ANELLO_BUCKET_BYTES, otherwise a suitable size within `range`. Throws Error{invalid_argument}, which begins with
// `caller`, on a rank that gives an invalid list or option; Error{mismatch} on all ranks if one differs from rank 0,
// with the first option or gradient that differs, both ranks and both values. Blocks until all ranks have called.
std::uint64_t register_gradients(std::string_view caller, Group& group, std::span<const Gradient> gradients,
                                 const GradientOptions& options, const BucketRange& range);

}  // namespace anello::gradients
