// The cost of a waiting operation, and of leaving, for the control plane: messages and processor time of each rank, in
// worlds of real FailureDetectors without sockets. A message takes 1 ms to a neighbour. Messages between two ranks keep
// their order. A rank leaves by the ControlPlane's rule: when each neighbour has gone, or has left, or has returned its
// goodbye.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <map>
#include <set>
#include <utility>

#include "ring/base/text.hpp"
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
    leaving_.resize(std::size_t(size));
    gone_.resize(std::size_t(size));
    read_goodbye_.resize(std::size_t(size));
  }

  int size() const { return int(detectors_.size()); }
  FailureDetector& operator[](int rank) { return *detectors_[std::size_t(rank)]; }
  void leave(int rank) {
    (*this)[rank].leave(0, 8);
    leaving_[std::size_t(rank)] = true;
  }

  // Runs the world until `until`. event(now) makes the events of each moment, and returns the ranks that it affected.
  template <class Event>
  Cost run(milliseconds until, Event event) {
    Cost cost;
    const double before = processor_us();
    for (milliseconds now = kFirstTick; now < until; now += kOneWay) {
      const std::vector<Sent> received = std::exchange(sent_, {});
      for (const int rank : event(now)) collect(rank);
      for (int rank = 0; rank < size(); rank++) {
        if (gone_[std::size_t(rank)] || due_[std::size_t(rank)].value_or(milliseconds::max()) > now) continue;
        (*this)[rank].tick(now);
        collect(rank);
      }
      for (const Sent& each : received) {
        if (gone_[std::size_t(each.to)]) continue;
        cost.messages += 1.0 / size();
        receive(each, now);
      }
      for (int rank = 0; rank < size(); rank++)
        if (leaving_[std::size_t(rank)] && !gone_[std::size_t(rank)] && may_go(rank)) go(rank);
    }
    cost.us = (processor_us() - before) / size();
    return cost;
  }

 private:
  struct Sent {
    int from, to;
    std::string message;
  };

  void receive(const Sent& sent, milliseconds now) {
    (*this)[sent.to].receive(sent.message, now);
    const bool is_leaving = leaving_[std::size_t(sent.to)];
    if (is_leaving && (*this)[sent.to].is_own_goodbye(sent.message))
      read_goodbye_[std::size_t(sent.to)].insert(sent.from);
    if (!is_leaving && (*this)[sent.to].is_goodbye_of(sent.from, sent.message))
      sent_.push_back({sent.to, sent.from, sent.message});
    collect(sent.to);
  }

  bool may_go(int rank) {
    return std::ranges::all_of(neighbours_[std::size_t(rank)], [&](int other) {
      return gone_[std::size_t(other)] || (*this)[rank].has_left(other) ||
             read_goodbye_[std::size_t(rank)].contains(other);
    });
  }
  // Ends the rank: from now on it sends and receives nothing.
  void go(int rank) {
    (*this)[rank].pass_on();
    collect(rank);
    gone_[std::size_t(rank)] = true;
  }

  void collect(int rank) {
    due_[std::size_t(rank)] = (*this)[rank].due();
    for (const std::string& message : (*this)[rank].take_outbox())
      for (const int to : neighbours_[std::size_t(rank)]) sent_.push_back({rank, to, message});
  }

  std::vector<std::unique_ptr<FailureDetector>> detectors_;
  std::vector<std::vector<int>> neighbours_;
  std::vector<std::optional<milliseconds>> due_;
  std::vector<bool> leaving_, gone_;
  std::vector<std::set<int>> read_goodbye_;  // by rank: the neighbours that have read the rank's goodbye
  std::vector<Sent> sent_;
};

// The ranks wait for 2 s.
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

// The cost if the ranks `leaving` leave, each at a random moment within `within_ms`. In the end, all ranks that remain
// must have received the goodbyes.
Cost cost_of_leaving(int ranks, const std::set<int>& leaving, std::uint64_t within_ms, std::uint64_t seed) {
  TimedWorld world(ranks);
  Random random(seed);
  std::map<int, milliseconds> at;
  for (const int rank : leaving) at[rank] = kFirstTick + milliseconds(random.below(within_ms));
  const Cost cost = world.run(milliseconds(1500), [&](milliseconds now) {
    std::vector<int> touched;
    for (const auto& [rank, moment] : at) {
      if (moment != now) continue;
      world.leave(rank);
      touched.push_back(rank);
    }
    return touched;
  });
  for (int rank = 0; rank < ranks; rank++)
    for (const int gone : leaving)
      EXPECT_TRUE(leaving.contains(rank) || world[rank].has_left(gone)) << gone << " at " << rank;
  return cost;
}
Cost cost_of_leaving(int ranks, int leaving) {
  std::set<int> all;
  for (int rank = 0; rank < leaving; rank++) all.insert(rank);
  return cost_of_leaving(ranks, all, 20, 7);
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

// A rank leaves together with all its neighbours. Only these neighbours can pass its goodbye on.
TEST(Goodbyes, OfARankWhoseNeighboursLeaveAtTheSameTimeArrive) {
  for (const std::uint64_t seed : seeds(100)) {
    Random random(seed);
    const int ranks = int(random.from(6, 24)), rank = int(random.below(std::uint64_t(ranks)));
    const std::vector<int> neighbours = control_neighbours(rank, ranks);
    std::set<int> leaving(neighbours.begin(), neighbours.end());
    leaving.insert(rank);
    const std::uint64_t within_ms = random.from(1, 10);
    SCOPED_TRACE(text(replay(seed), ", ", rank, " of ", ranks, " within ", within_ms, " ms"));
    cost_of_leaving(ranks, leaving, within_ms, seed);
    if (testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace anello::failure
