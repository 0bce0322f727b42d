#include "ring/base/cores.hpp"

#include <gtest/gtest.h>
#include <sched.h>

#include <thread>

namespace anello {
namespace {

std::string only(int core) {
  std::string allowed(std::size_t(core) / 8 + 1, '\0');
  allowed.back() = char(1 << core % 8);
  return allowed;
}

TEST(Cores, ThereIsAtLeastAPartOfOne) {
  EXPECT_GT(available_cores().count(), 0);
  EXPECT_LE(available_cores().count(), std::thread::hardware_concurrency());
}

TEST(Cores, FollowTheThreadsAffinity) {
  std::thread([] {
    cpu_set_t set;
    CPU_ZERO(&set);
    const int core = sched_getcpu();
    CPU_SET(std::size_t(core), &set);
    ASSERT_EQ(sched_setaffinity(0, sizeof set, &set), 0);
    EXPECT_EQ(available_cores().allowed, only(core));
  }).join();
}

TEST(Cores, OfRanksBoundToDifferentCoresAddUp) {
  Cores cores{only(1), 8};
  cores.unite({only(70), 8});
  EXPECT_EQ(cores.count(), 2);
  cores.unite({only(1), 8});
  EXPECT_EQ(cores.count(), 2) << "the same core again";
}

TEST(Cores, AQuotaIsCommonToAll) {
  Cores cores{only(0), 1.5};
  cores.unite({only(1), 4});
  EXPECT_EQ(cores.count(), 1.5);
}

}  // namespace
}  // namespace anello
