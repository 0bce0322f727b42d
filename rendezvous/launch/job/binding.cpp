#include "rendezvous/launch/job/binding.hpp"

#include <algorithm>
#include <cstddef>

namespace anello::launch {
namespace {

cpu_set_t allowed() {
  cpu_set_t set;
  CPU_ZERO(&set);
  sched_getaffinity(0, sizeof set, &set);
  return set;
}

}  // namespace

cpu_set_t cores_of(int rank, int ranks, bool first_run) {
  const cpu_set_t all = allowed();
  cpu_set_t mine;
  CPU_ZERO(&mine);
  const long count = CPU_COUNT(&all), first = first_run && ranks > count ? rank % count : count * rank / ranks;
  const long end = std::max(first + 1, count * (rank + 1) / ranks);
  long at = 0;
  for (std::size_t core = 0; core < CPU_SETSIZE; core++) {
    if (!CPU_ISSET(core, &all)) continue;
    if (at >= first && at < end) CPU_SET(core, &mine);
    at++;
  }
  return mine;
}

}  // namespace anello::launch
