// What fails on one rank only, on its device or for want of memory, ends the world: the others wait for this rank.
#pragma once
#include <anello/error.hpp>
#include <anello/group.hpp>
#include <new>

namespace anello::gpu {

template <class Body>
void or_abort(Group& group, Body body) {
  try {
    body();
  } catch (const Error& error) {
    if (error.code() == ErrorCode::device || error.code() == ErrorCode::timed_out) group.abort(error.what());
    throw;
  } catch (const std::bad_alloc&) {
    group.abort("no memory is left on the host");
    throw;
  }
}

}  // namespace anello::gpu
