// A link knows no ranks, so its users give its errors the peer's.
#pragma once
#include <anello/error.hpp>

namespace anello::link {

// Errors that `work` throws get this rank. A link throws another exception where this process is to blame.
template <class Work>
auto with_rank(int rank, Work work) {
  try {
    return work();
  } catch (const Error& e) {
    throw Error(e.code(), e.message(), rank);
  }
}

}  // namespace anello::link
