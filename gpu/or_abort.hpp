// Aborts the world for an error that only one rank can detect: on its device, or because memory has run out. The other
// ranks wait for this rank, so they must get the error too.
#pragma once
#include <anello/error.hpp>
#include <anello/group.hpp>
#include <new>

#include "ring/group/group_impl.hpp"

namespace anello::gpu {

// Aborts the world, so that the other ranks get this rank's message. A timeout keeps its error code.
inline void abort_because(const Group& group, const Error& why) {
  GroupAccess::abort(group, why.what(), why.code() == ErrorCode::timed_out ? why.code() : ErrorCode::aborted);
}

// Calls body(), and rethrows its exceptions. For Error{device}, Error{timed_out} and std::bad_alloc it first aborts the
// world.
template <class Body>
void or_abort(Group& group, Body body) {
  try {
    body();
  } catch (const Error& error) {
    if (error.code() == ErrorCode::device || error.code() == ErrorCode::timed_out) abort_because(group, error);
    throw;
  } catch (const std::bad_alloc&) {
    group.abort("no memory is left on the host");
    throw;
  }
}

}  // namespace anello::gpu
