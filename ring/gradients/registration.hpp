// The common rules of Gradients and GpuGradients. At the start, gradients and options must be valid and equal on all
// ranks. At the end of a step, every gradient must have been announced.
#pragma once
#include <anello/gradients.hpp>
#include <string>
#include <string_view>

#include "ring/gradients/bucket_schedule.hpp"

namespace anello::gradients {

// All ranks of the group call this. Returns the maximum size of a bucket in bytes: the option bucket_bytes; if it is
// not given, ANELLO_BUCKET_BYTES; if neither is given, a suitable size within `range`. On a rank that gives an invalid
// list or option, throws Error{invalid_argument}, whose message begins with `caller`. If a rank differs from rank 0,
// throws Error{mismatch} on all ranks, with the first option or gradient that differs, both ranks and both values.
// Blocks until all ranks have called.
std::uint64_t register_gradients(std::string_view caller, Group& group, std::span<const Gradient> gradients,
                                 const GradientOptions& options, const BucketRange& range);

// Ends the world because of BucketSchedule::omissions(): the other ranks wait for buckets that will not be sent. The
// other ranks throw the same error as this rank. In a group of one rank, the world does not end; this function only
// throws. Before it throws, calls settle(), which must wait until no operation uses the gradients, and must not throw.
template <class Settle>
[[noreturn]] void refuse_omissions(Group& group, const std::string& omissions, Settle settle) {
  if (group.size() == 1) throw Error(ErrorCode::invalid_argument, omissions);
  group.abort(omissions);
  settle();
  throw group.failure().value();
}

}  // namespace anello::gradients
