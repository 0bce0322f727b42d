// What an operation that waits costs the control plane: messages and processor time of each rank, in worlds of real
// FailureDetectors without sockets. A message takes 1 ms to a neighbour.
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

double processor_us() {
  timespec used{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return double(used.tv_sec) * 1e6 + double(used.tv_nsec) / 1e3;
}

struct Cost {
  double messages = 0, us = 0;  // of one rank
};

// All ranks except the last begin the operation and wait for 2 s.
Cost cost_of_waiting(int ranks) {
  const Signature waited_for = operation(7, 100);
  const std::vector<std::string> hosts = Assembly::host_names(ranks);
  std::vector<std::unique_ptr<FailureDetector>> detectors;
  std::vector<std::vector<int>> neighbours;
  for (int rank = 0; rank < ranks; rank++) {
    const bool begins = rank < ranks - 1;
    detectors.push_back(std::make_unique<FailureDetector>(rank, hosts, [=](std::uint64_t, std::uint64_t sequence) {
      return begins && sequence == waited_for.sequence ? std::optional(waited_for) : std::nullopt;
    }));
    neighbours.push_back(control_neighbours(rank, ranks));
  }
  std::vector<std::optional<milliseconds>> due(std::size_t(ranks), milliseconds(0));
  Cost cost;
  std::vector<std::pair<int, std::string>> sent, received;
  const auto collect = [&](int rank) {
    due[std::size_t(rank)] = detectors[std::size_t(rank)]->due();
    for (const std::string& message : detectors[std::size_t(rank)]->take_outbox())
      for (const int to : neighbours[std::size_t(rank)]) sent.emplace_back(to, message);
  };
  const double before = processor_us();
  for (milliseconds now{1000}; now < milliseconds(3000); now += milliseconds(1)) {
    received = std::exchange(sent, {});
    for (int rank = 0; rank < ranks; rank++) {
      if (!due[std::size_t(rank)] || *due[std::size_t(rank)] > now) continue;
      FailureDetector& detector = *detectors[std::size_t(rank)];
      if (now == milliseconds(1000) && rank < ranks - 1) detector.waiting(waited_for, now);
      detector.tick(now);
      collect(rank);
    }
    for (const auto& [to, message] : received) {
      detectors[std::size_t(to)]->receive(message, now);
      collect(to);
    }
    cost.messages += double(received.size()) / ranks;
  }
  cost.us = (processor_us() - before) / ranks;
  return cost;
}

class ControlCost : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, ControlCost, testing::Values(64, 128, 256, 512));

TEST_P(ControlCost, OfAWaitingOperationGrowsWithTheLogarithm) {
  const Cost cost = cost_of_waiting(GetParam());
  std::printf("%d ranks: %.1f messages and %.0f us for each rank\n", GetParam(), cost.messages, cost.us);
  const double one_flood = 2 * std::bit_width(unsigned(GetParam()) - 1) - 1;
  EXPECT_LE(cost.messages, 8 * one_flood);
}

}  // namespace
}  // namespace anello::failure
