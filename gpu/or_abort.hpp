// An error that only one rank can see, on its device or because memory has run out, aborts the world: the other ranks
// wait for this one.
#pragma once
#include <anello/error.hpp>
#include <anello/group.hpp>
#include <new>

#include "ring/group/group_impl.hpp"

namespace anello::gpu {

// Calls body(), and rethrows what it throws. For Error{device}, Error{timed_out} and std::bad_alloc it aborts the world
// first.
template <class Body>
void or_abort(Group& group, Body body) {
  try {
    body();
  } catch (const Error& error) {
    if (error.code() == ErrorCode::device) group.abort(error.what());
    if (error.code() == ErrorCode::timed_out) GroupAccess::abort(group, error.what(), error.code());
    throw;
  } catch (const std::bad_alloc&) {
    group.abort("no memory is left on the host");
    throw;
  }
}

}  // namespace anello::gpu
