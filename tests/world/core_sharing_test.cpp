#include "ring/world/core_sharing.hpp"

#include <gtest/gtest.h>

namespace anello::world {
namespace {

constexpr double kNoQuota = 1e9;

// The first eight cores or fewer.
Cores cores(int count, double quota = kNoQuota) {
  return {std::string(1, char((1 << count) - 1)), quota};
}

TEST(CoreSharing, OfOneHostIsThatOfItsRanks) {
  CoreSharing sharing;
  for (int rank = 0; rank < 2; rank++) sharing.add(0, "kernel", cores(2));
  EXPECT_FALSE(sharing.on_host(0));
  EXPECT_FALSE(sharing.on_some_host());
  sharing.add(0, "kernel", cores(2));
  EXPECT_TRUE(sharing.on_host(0));
  EXPECT_TRUE(sharing.on_some_host());
  EXPECT_FALSE(sharing.on_shared_machine(0)) << "there is one host";
}

TEST(CoreSharing, ContainersHaveTheCoresOfTheirMachine) {
  CoreSharing sharing;
  for (int host = 0; host < 2; host++) sharing.add(host, "kernel", cores(2));
  EXPECT_FALSE(sharing.on_shared_machine(0));
  sharing.add(2, "kernel", cores(2));
  sharing.add(3, "other kernel", cores(2));
  EXPECT_TRUE(sharing.on_shared_machine(0));
  EXPECT_FALSE(sharing.on_shared_machine(3)) << "a host of its own, in a world with containers";
  EXPECT_TRUE(sharing.on_host(0));
  EXPECT_FALSE(sharing.on_host(3)) << "another machine";
  EXPECT_FALSE(sharing.on_some_host());
}

TEST(CoreSharing, ContainersMayHaveOtherCoresOrAQuotaEach) {
  CoreSharing sharing;
  for (const char core : {1, 2, 4}) sharing.add(core, "kernel", {std::string(1, core), kNoQuota});
  EXPECT_FALSE(sharing.on_shared_machine(1));
  for (int host = 0; host < 4; host++) sharing.add(host + 10, "larger", cores(4, 1));
  EXPECT_FALSE(sharing.on_shared_machine(10));
  sharing.add(10, "larger", cores(4, 1));
  EXPECT_TRUE(sharing.on_some_host()) << "two ranks with a quota of one core";
}

TEST(CoreSharing, BoundRanksShareACoreOnlyWithTheirNeighbours) {
  CoreSharing sharing;
  for (const char core : {1, 1, 2, 2}) sharing.add(0, "kernel", {std::string(1, core), kNoQuota});
  EXPECT_TRUE(sharing.on_some_host());
  EXPECT_TRUE(sharing.ranks_are_bound());
  sharing.add(0, "kernel", {std::string(1, 1), kNoQuota});
  EXPECT_FALSE(sharing.ranks_are_bound()) << "it is far from the others of its core";
  CoreSharing free;
  for (int rank = 0; rank < 2; rank++) free.add(0, "kernel", cores(1));
  EXPECT_FALSE(free.ranks_are_bound()) << "there is one core";
  free.add(0, "kernel", {std::string(1, 2), kNoQuota});
  EXPECT_TRUE(free.ranks_are_bound());
  free.add(0, "kernel", {std::string(1, 4 + 8), kNoQuota});
  EXPECT_FALSE(free.ranks_are_bound()) << "a rank has two cores";
}

TEST(CoreSharing, AnUnknownKernelIsNobodyElses) {
  CoreSharing sharing;
  for (int host = 0; host < 3; host++) sharing.add(host, "", cores(1));
  EXPECT_FALSE(sharing.on_shared_machine(2));
  EXPECT_FALSE(sharing.on_host(2));
}

}  // namespace
}  // namespace anello::world
