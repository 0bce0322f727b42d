// What an operation that waits, and what leaving, costs the control plane: messages and processor time of each rank, in
// worlds of real FailureDetectors without sockets. A message takes 1 ms to a neighbour.
#include <gtest/gtest.h>

#include <bit>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <utility>

#include "ring/failure/failure_detector.hpp"
#include "tests/support/assembly.hpp"
#include "tests/support/signatures.hpp"

namespace anello::failure {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kFirstTick{1000}, kOneWay{1};
const Signature kWaitedFor = operation(7, 100);

double processor_us() {
  timespec used{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return double(used.tv_sec) * 1e6 + double(used.tv_nsec) / 1e3;
}

struct Cost {
  double messages = 0, us = 0;  // of one rank
};

class TimedWorld {
 public:
  // All ranks except the last have begun the operation.
  explicit TimedWorld(int size) {
    const std::vector<std::string> hosts = Assembly::host_names(size);
    for (int rank = 0; rank < size; rank++) {
      const bool begins = rank < size - 1;
      detectors_.push_back(std::make_unique<FailureDetector>(rank, hosts, [=](std::uint64_t, std::uint64_t sequence) {
        return begins && sequence == kWaitedFor.sequence ? std::optional(kWaitedFor) : std::nullopt;
      }));
      neighbours_.push_back(control_neighbours(rank, size));
    }
    due_.resize(std::size_t(size));
    gone_.resize(std::size_t(size));
  }

  int size() const { return int(detectors_.size()); }
  FailureDetector& operator[](int rank) { return *detectors_[std::size_t(rank)]; }
  void gone(int rank) { gone_[std::size_t(rank)] = true; }  // it sends and receives nothing any more

  // What happens at a time is up to event(now), which returns the ranks that it touched.
  template <class Event>
  Cost run(milliseconds until, Event event) {
    Cost cost;
    const double before = processor_us();
    for (milliseconds now = kFirstTick; now < until; now += kOneWay) {
      const std::vector<std::pair<int, std::string>> received = std::exchange(sent_, {});
      for (const int rank : event(now)) collect(rank);
      for (int rank = 0; rank < size(); rank++) {
        if (gone_[std::size_t(rank)] || due_[std::size_t(rank)].value_or(milliseconds::max()) > now) continue;
        (*this)[rank].tick(now);
        collect(rank);
      }
      for (const auto& [to, message] : received) {
        if (gone_[std::size_t(to)]) continue;
        cost.messages += 1.0 / size();
        (*this)[to].receive(message, now);
        collect(to);
      }
    }
    cost.us = (processor_us() - before) / size();
    return cost;
  }

 private:
  void collect(int rank) {
    due_[std::size_t(rank)] = (*this)[rank].due();
    for (const std::string& message : (*this)[rank].take_outbox())
      for (const int to : neighbours_[std::size_t(rank)]) sent_.emplace_back(to, message);
  }

  std::vector<std::unique_ptr<FailureDetector>> detectors_;
  std::vector<std::vector<int>> neighbours_;
  std::vector<std::optional<milliseconds>> due_;
  std::vector<bool> gone_;
  std::vector<std::pair<int, std::string>> sent_;
};

// They wait for 2 s.
Cost cost_of_waiting(int ranks) {
  TimedWorld world(ranks);
  return world.run(milliseconds(3000), [&](milliseconds now) {
    std::vector<int> waiting;
    for (int rank = 0; now == kFirstTick && rank < ranks - 1; rank++) {
      world[rank].waiting(kWaitedFor, now);
      waiting.push_back(rank);
    }
    return waiting;
  });
}

// The first `leaving` of all ranks leave, each at a moment within 20 ms, and are gone 3 ms later. All that remain must
// know it in the end.
Cost cost_of_leaving(int ranks, int leaving) {
  TimedWorld world(ranks);
  Random random(7);
  std::vector<milliseconds> at;
  for (int rank = 0; rank < leaving; rank++) at.push_back(kFirstTick + milliseconds(random.below(20)));
  const Cost cost = world.run(milliseconds(1500), [&](milliseconds now) {
    std::vector<int> touched;
    for (int rank = 0; rank < leaving; rank++) {
      if (at[std::size_t(rank)] + milliseconds(3) == now) world.gone(rank);
      if (at[std::size_t(rank)] != now) continue;
      world[rank].leave(0, 8);
      touched.push_back(rank);
    }
    return touched;
  });
  for (int rank = leaving; rank < ranks; rank++)
    for (int gone = 0; gone < leaving; gone++) EXPECT_TRUE(world[rank].has_left(gone)) << gone << " at " << rank;
  return cost;
}

double one_flood(int ranks) {
  return 2 * std::bit_width(unsigned(ranks) - 1) - 1;
}

class ControlCost : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, ControlCost, testing::Values(8, 64, 128, 256, 512));

TEST_P(ControlCost, OfAWaitingOperationGrowsWithTheLogarithm) {
  const Cost cost = cost_of_waiting(GetParam());
  std::printf("%d ranks: %.1f messages and %.0f us for each rank\n", GetParam(), cost.messages, cost.us);
  EXPECT_LE(cost.messages, 8 * one_flood(GetParam()));
}

TEST_P(ControlCost, OfLeavingTogetherGrowsWithTheLogarithm) {
  const int ranks = GetParam();
  for (const int leaving : {1, ranks / 4, ranks}) {
    const Cost cost = cost_of_leaving(ranks, leaving);
    std::printf("%d of %d ranks leave: %.1f messages and %.0f us for each rank\n", leaving, ranks, cost.messages,
                cost.us);
    EXPECT_LE(cost.messages, 8 * one_flood(ranks));
  }
}

}  // namespace
}  // namespace anello::failure
