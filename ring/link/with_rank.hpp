// Adds the peer's rank to the errors of a link, which has no rank of its own.
#pragma once
#include <anello/error.hpp>

namespace anello::link {

// Runs `work`; its Errors get this rank. For faults of this process, a link throws other exceptions.
template <class Work>
auto with_rank(int rank, Work work) {
  try {
    return work();
  } catch (const Error& e) {
    throw Error(e.code(), e.message(), rank);
  }
}

}  // namespace anello::link
