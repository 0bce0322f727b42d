// The rules for all ranks that Gradients and GpuGradients share: at the start, gradients and options must be valid, and
// the same on all ranks; at the end of a step, every gradient must have been announced.
#pragma once
#include <anello/gradients.hpp>
#include <string>
#include <string_view>

#include "ring/gradients/bucket_schedule.hpp"

namespace anello::gradients {

// All ranks of the group call this. Returns the maximum size of a bucket in bytes: bucket_bytes of the options,
// otherwise ANELLO_BUCKET_BYTES, otherwise a suitable size within `range`. Throws Error{invalid_argument}, which begins
// with `caller`, on a rank that gives an invalid list or option; Error{mismatch} on all ranks if a rank differs from
// rank 0, with the first option or gradient that differs, both ranks and both values. Blocks until all ranks have
// called.
std::uint64_t register_gradients(std::string_view caller, Group& group, std::span<const Gradient> gradients,
                                 const GradientOptions& options, const BucketRange& range);

// Ends the world because of BucketSchedule::omissions(): the other ranks wait for buckets that will not be sent, and
// throw the same error as this rank. In a group of one rank it only throws. Calls settle() before it throws; settle()
// must wait until no operation uses the gradients, and must not throw.
template <class Settle>
[[noreturn]] void refuse_omissions(Group& group, const std::string& omissions, Settle settle) {
  if (group.size() == 1) throw Error(ErrorCode::invalid_argument, omissions);
  group.abort(omissions);
  settle();
  throw group.failure().value();
}

}  // namespace anello::gradients
