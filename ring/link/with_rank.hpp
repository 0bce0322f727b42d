// Adds the peer's rank to the errors of a link, because a link does not store its peer's rank.
#pragma once
#include <anello/error.hpp>

namespace anello::link {

// Runs `work`. If it throws an Error, adds the rank to that error. A link throws Error only for faults that concern the
// peer; for a fault of this process it throws another exception, which passes unchanged.
template <class Work>
auto with_rank(int rank, Work work) {
  try {
    return work();
  } catch (const Error& e) {
    throw Error(e.code(), e.message(), rank);
  }
}

}  // namespace anello::link
