#include "ring/shm/shared_copier.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <vector>

namespace anello::shm {
namespace {

using std::chrono::microseconds;
using std::chrono::nanoseconds;

constexpr std::size_t kCopied = 8 << 10;
constexpr microseconds kFastCopy{1}, kSlowCopy{4};

// Makes `copies` copies, and returns how many of them were measured, each with `took`.
int copies_measured(StoreChoice& choice, int copies, nanoseconds took) {
  int count = 0;
  for (int k = 0; k < copies; k++)
    if (choice.measures()) {
      choice.measured(kCopied, took);
      count++;
    }
  return count;
}

TEST(StoreChoice, KeepsOrdinaryStoresWhileTheyAreFast) {
  StoreChoice choice;
  const int measured = copies_measured(choice, 1000, kFastCopy);
  EXPECT_GT(measured, 50);
  EXPECT_LT(measured, 250) << "measuring takes time";
  EXPECT_FALSE(choice.non_temporal());
}

TEST(StoreChoice, TakesNonTemporalStoresOnceOrdinaryOnesAreSlow) {
  StoreChoice choice;
  copies_measured(choice, 1000, kFastCopy);
  int copies = 0;
  for (; !choice.non_temporal() && copies < 1000; copies++) copies_measured(choice, 1, kSlowCopy);
  EXPECT_LE(copies, 20);
}

// A measurement is slow if another process takes the core meanwhile.
TEST(StoreChoice, IgnoresTwoSlowCopies) {
  StoreChoice choice;
  for (int k = 0; k < 1000; k++) {
    while (!choice.measures()) continue;
    choice.measured(kCopied, k % 3 == 0 ? nanoseconds(kFastCopy) : nanoseconds(kSlowCopy));
    ASSERT_FALSE(choice.non_temporal()) << k;
  }
}

TEST(StoreChoice, TestsOrdinaryStoresSeldomWhileTheyAreSlow) {
  StoreChoice choice;
  copies_measured(choice, 1000, kSlowCopy);
  EXPECT_TRUE(choice.non_temporal());
  const int measured = copies_measured(choice, 10'000, kSlowCopy);
  EXPECT_GE(measured, 30);
  EXPECT_LE(measured, 50);
  EXPECT_TRUE(choice.non_temporal());
}

TEST(StoreChoice, ReturnsToOrdinaryStoresOnceTheyAreFast) {
  StoreChoice choice;
  copies_measured(choice, 1000, kSlowCopy);
  ASSERT_TRUE(choice.non_temporal());
  copies_measured(choice, 300, kFastCopy);
  EXPECT_FALSE(choice.non_temporal());
}

// A clock with which each measured copy takes `kSlowCopy`.
std::chrono::steady_clock::time_point slow_clock() {
  static std::chrono::steady_clock::time_point time;
  return time += kSlowCopy;
}

TEST(SharedCopier, CopiesAnyBytesWithBothKindsOfStores) {
  for (const bool slow : {false, true}) {
    SharedCopier copier = slow ? SharedCopier(slow_clock) : SharedCopier();
    std::vector<std::byte> from(3 * kCopied), to(from.size());
    for (std::size_t k = 0; k < from.size(); k++) from[k] = std::byte(k * 37 % 251 + 1);
    for (int k = 0; slow && k < 100; k++) copier.copy(to.data(), from.data(), kCopied);
    ASSERT_EQ(copier.choice().non_temporal(), slow);
    for (std::size_t bytes = 0; bytes < 2 * kCopied + 200; bytes += bytes < 300 ? 1 : 997)
      for (const std::size_t offset : {0, 1, 3, 16, 63, 64, 100}) {
        std::vector<std::byte> expected(to.size());
        std::copy_n(from.begin() + offset / 2, bytes, expected.begin() + offset);
        to.assign(to.size(), std::byte(0));
        copier.copy(to.data() + offset, from.data() + offset / 2, bytes);
        ASSERT_EQ(to, expected) << bytes << " at " << offset;
      }
    EXPECT_TRUE(!slow || copier.choice().non_temporal());
  }
}

}  // namespace
}  // namespace anello::shm
