// Which rank a mismatch blames: the rank whose call differs from the others', in worlds of 3, 4 and 5 ranks, for each
// rank. ANELLO_SEEDS sets how often the table is tried.
#include <gmock/gmock.h>

#include <algorithm>
#include <functional>
#include <future>
#include <mutex>
#include <numeric>

#include "ring/base/text.hpp"
#include "tests/support/random.hpp"
#include "tests/support/worlds.hpp"

namespace anello::group {
namespace {
namespace blame {

using testing::HasSubstr;

constexpr std::size_t kElems = 60;  // parts of it for 3, 4 and 5 ranks
constexpr int kRoot = 1;

std::vector<float> zeros(std::size_t count = kElems) {
  return std::vector<float>(count);
}

// A call that all ranks except one, the odd rank, make in the same way.
struct Row {
  const char* difference;
  std::function<void(Group&, bool odd)> call;
};

void allreduce(Group& world, std::size_t count, Op op, const ReduceOptions& options = {}) {
  auto values = zeros(count);
  world.allreduce(values, op, options);
}

// All parts are equally large, but the odd rank has different counts for the first two parts.
std::vector<std::uint64_t> parts(const Group& world, bool odd) {
  std::vector<std::uint64_t> counts(std::size_t(world.size()), 5);
  if (odd) counts[0]++, counts[1]--;
  return counts;
}

// An alltoall in which a rank sends these counts to all others, and expects these counts from them.
void alltoall(Group& world, std::uint64_t sends, std::uint64_t expects) {
  const auto size = std::size_t(world.size()), self = std::size_t(world.rank());
  std::vector<std::uint64_t> send_counts(size, sends), recv_counts(size, expects);
  send_counts[self] = recv_counts[self] = 3;
  auto input = zeros(sends * (size - 1) + 3), output = zeros(expects * (size - 1) + 3);
  world.alltoall(input, output, send_counts, recv_counts);
}

int root(const Group& world, bool odd) {
  return odd ? (kRoot + 1) % world.size() : kRoot;
}

const std::vector<Row> kTable = {
    {"counts", [](Group& world, bool odd) { allreduce(world, odd ? kElems + 1 : kElems, Op::sum); }},
    {"counts", [](Group& world, bool odd) { allreduce(world, odd ? 0 : kElems, Op::sum); }},
    {"counts", [](Group& world, bool odd) { allreduce(world, odd ? kElems : 0, Op::sum); }},
    {"counts", [](Group& world, bool odd) { allreduce(world, odd ? 1'000'000 : kElems, Op::sum); }},
    {"counts", [](Group& world, bool odd) { allreduce(world, odd ? kElems : 1'000'000, Op::sum); }},
    {"reductions", [](Group& world, bool odd) { allreduce(world, kElems, odd ? Op::max : Op::sum); }},
    {"dtypes",
     [](Group& world, bool odd) {
       std::vector<std::int32_t> integers(kElems);
       auto values = zeros();
       world.allreduce(odd ? Tensor(integers) : Tensor(values));
     }},
    {"dtypes on the wire",
     [](Group& world, bool odd) {
       allreduce(world, kElems, Op::sum, {.wire = odd ? std::optional(DType::bf16) : std::nullopt});
     }},
    {"algorithms",
     [](Group& world, bool odd) { allreduce(world, kElems, Op::sum, {.algorithm = odd ? "tree" : "ring"}); }},
    {"postscales", [](Group& world, bool odd) { allreduce(world, kElems, Op::sum, {.postscale = odd ? 0.5 : 0.25}); }},
    {"consistency tokens", [](Group& world, bool odd) { world.barrier({.consistency_token = odd ? 8u : 7u}); }},
    {"tensors of a list",
     [](Group& world, bool odd) {
       auto first = zeros(odd ? 20 : 30), second = zeros(odd ? 40 : 30);
       world.allreduce({first, second});
     }},
    {"lists of counts",
     [](Group& world, bool odd) {
       const std::vector<std::uint64_t> counts = parts(world, odd);
       auto mine = zeros(counts[std::size_t(world.rank())]), all = zeros(5 * counts.size());
       world.allgather(mine, all, {.counts = counts});
     }},
    {"operations",
     [](Group& world, bool odd) {
       if (odd) return world.barrier();
       allreduce(world, kElems, Op::sum);
     }},
    {"operations",
     [](Group& world, bool odd) {
       auto values = zeros(), all = zeros(kElems * std::size_t(world.size()));
       if (odd) return world.allgather(values, all);
       world.broadcast(values, kRoot);
     }},
    {"roots",
     [](Group& world, bool odd) {
       auto values = zeros();
       world.broadcast(values, root(world, odd));
     }},
    {"roots",
     [](Group& world, bool odd) {
       auto values = zeros();
       world.reduce(values, root(world, odd));
     }},
    {"roots",
     [](Group& world, bool odd) {
       auto values = zeros(), all = zeros(kElems * std::size_t(world.size()));
       world.gather(values, all, root(world, odd));
     }},
    {"roots",
     [](Group& world, bool odd) {
       auto values = zeros(), all = zeros(kElems * std::size_t(world.size()));
       world.scatter(all, values, root(world, odd));
     }},
    {"counts",
     [](Group& world, bool odd) {
       const std::size_t count = odd ? 50 : 60;
       auto input = zeros(count * std::size_t(world.size())), output = zeros(count);
       world.reduce_scatter(input, output);
     }},
    {"counts",
     [](Group& world, bool odd) {
       const std::size_t count = odd ? 50 : 60;
       auto input = zeros(count * std::size_t(world.size())), output = zeros(count * std::size_t(world.size()));
       world.alltoall(input, output);
     }},
    // Three cases: the odd rank sends other counts than the others expect; it expects other counts than the others
    // send; both.
    {"splits", [](Group& world, bool odd) { alltoall(world, odd ? 4 : 3, 3); }},
    {"splits", [](Group& world, bool odd) { alltoall(world, 3, odd ? 4 : 3); }},
    {"splits", [](Group& world, bool odd) { alltoall(world, odd ? 4 : 3, odd ? 4 : 3); }},
};

// A trial takes place in the world, or in a group of these ranks in another order, whose world has two further ranks.
struct Trial {
  std::size_t row;
  int ranks, odd;
  bool in_group;
  int odd_in_world() const { return in_group ? odd + 1 : odd; }
};

std::vector<Told> told_by(const Trial& trial) {
  const Row& row = kTable[trial.row];
  const int odd = trial.odd_in_world();
  return told_on_all_ranks(trial.ranks + 2 * trial.in_group, [&](World& world) {
    std::vector<int> members(std::size_t(trial.ranks));
    std::iota(members.rbegin(), members.rend(), 1);
    world.barrier();
    if (!trial.in_group) {
      row.call(world, world.rank() == odd);
    } else if (std::ranges::find(members, world.rank()) != members.end()) {
      Group group = world.group(members);
      row.call(group, world.rank() == odd);
      auto input = zeros(members.size()), output = zeros(members.size());
      group.alltoall(input, output);  // every two ranks meet here; a barrier need not read a wrong root's data
    }
    for (int k = 0; k < 3; k++) world.barrier();
  });
}

// True if a rank is missing in the verdict. A verdict leaves out ranks that have not answered within a second, such as
// a rank without a core.
bool lacks_a_rank(const std::vector<Told>& all) {
  return std::ranges::any_of(all, [](const Told& told) {
    if (!told.error || told.error->rank() != -1) return false;
    const std::string& message = told.error->message();
    return message.find(" not called it") != std::string::npos || message.find("splits") != std::string::npos;
  });
}

void expect_blamed(const Trial& trial) {
  constexpr int kTimes = 20;
  const Row& row = kTable[trial.row];
  const int odd = trial.odd_in_world();
  std::vector<Told> all = told_by(trial);
  for (int time = 1; time < kTimes && lacks_a_rank(all); time++) all = told_by(trial);
  static std::mutex mutex;
  const std::lock_guard lock(mutex);  // so that GoogleTest's messages do not mix
  for (const Told& told : all) {
    const std::string where = text("row ", trial.row, ", ", trial.ranks, " ranks, odd ", odd, ": rank ", told.rank,
                                   " received ", told.error ? told.error->what() : "no error");
    ASSERT_TRUE(told.error) << where;
    EXPECT_EQ(told.error->code(), ErrorCode::mismatch) << where;
    EXPECT_EQ(told.error->rank(), odd) << where;
    EXPECT_EQ(told.error->message(), all[0].error->message()) << where;
    EXPECT_THAT(told.error->message(), HasSubstr(row.difference)) << where;
    EXPECT_LT(told.after, std::chrono::seconds(5) + told.lateness) << where;
  }
}

// Runs trials at the same time, because most of their time is waiting.
void expect_blamed(const std::vector<Trial>& trials) {
  constexpr std::size_t kAtOnce = 8;
  std::vector<std::future<void>> lanes;
  for (std::size_t lane = 0; lane < kAtOnce; lane++)
    lanes.push_back(std::async(std::launch::async, [&, lane] {
      for (std::size_t k = lane; k < trials.size(); k += kAtOnce) expect_blamed(trials[k]);
    }));
  for (auto& lane : lanes) lane.get();
}

class Blame : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Of, Blame, testing::Values(3, 4, 5));

TEST_P(Blame, IsTheOddRanks) {
  for (const std::uint64_t seed : seeds(1)) {
    SCOPED_TRACE(text("time ", seed));
    std::vector<Trial> trials;
    for (std::size_t row = 0; row < kTable.size(); row++)
      for (int odd = 0; odd < GetParam(); odd++) trials.push_back({row, GetParam(), odd, false});
    expect_blamed(trials);
  }
}

TEST_P(Blame, IsTheOddRanksInAGroup) {
  std::vector<Trial> trials;
  for (const std::size_t row : {0, 5, 13, 15})
    for (int odd = 0; odd < GetParam(); odd++) trials.push_back({row, GetParam(), odd, true});
  expect_blamed(trials);
}

// Tests two ranks, and two against two.
TEST(BlameOfNobody, WhereNoCallHasAMajority) {
  for (const int ranks : {2, 4}) {
    const std::vector<Told> all = told_on_all_ranks(ranks, [](World& world) {
      allreduce(world, world.rank() % 2 == 0 ? kElems : kElems + 1, Op::sum);
      world.barrier();
    });
    for (const Told& told : all) {
      ASSERT_TRUE(told.error) << told.rank;
      EXPECT_EQ(told.error->code(), ErrorCode::mismatch);
      EXPECT_EQ(told.error->rank(), -1) << told.error->what();
      EXPECT_EQ(told.error->message(), all[0].error->message());
      EXPECT_THAT(told.error->message(), testing::AllOf(HasSubstr("(sum of 60 f32)"), HasSubstr("(sum of 61 f32)"),
                                                        HasSubstr("it is not clear which call is wrong")));
    }
  }
}

// Case 1: one rank sends a second rank more elements than the second expects. Case 2: two ranks have splits that differ
// from those of the other two ranks.
TEST(BlameOfNobody, WhereNoRankContradictsMoreRanksThanTheOthers) {
  const auto one_contradiction = [](World& world) {
    std::vector<std::uint64_t> sends{3, world.rank() == 0 ? 4u : 3u, 3};
    auto input = zeros(std::accumulate(sends.begin(), sends.end(), std::size_t(0))), output = zeros(9);
    world.alltoall(input, output, sends, std::vector<std::uint64_t>(3, 3));
    world.barrier();
  };
  const auto two_against_two = [](World& world) {
    alltoall(world, 3 + world.rank() % 2, 3 + world.rank() % 2);
    world.barrier();
  };
  for (const std::vector<Told>& all : {told_on_all_ranks(3, one_contradiction), told_on_all_ranks(4, two_against_two)})
    for (const Told& told : all) {
      ASSERT_TRUE(told.error) << told.rank;
      EXPECT_EQ(told.error->code(), ErrorCode::mismatch);
      EXPECT_EQ(told.error->rank(), -1) << told.error->what();
      EXPECT_EQ(told.error->message(), all[0].error->message());
      EXPECT_THAT(told.error->message(), HasSubstr("it is not clear which rank is wrong"));
    }
}

TEST(BlameOfNobody, OfTheTwoRanksOfATransfer) {
  const std::vector<Told> all = told_on_all_ranks(3, [](World& world) {
    auto values = zeros(world.rank() == 0 ? 5 : 6);
    if (world.rank() == 0) world.send(values, 1);
    if (world.rank() == 1) world.recv(values, 0);
    world.barrier();
  });
  for (const Told& told : all) {
    ASSERT_TRUE(told.error) << told.rank;
    EXPECT_EQ(told.error->code(), ErrorCode::mismatch);
    EXPECT_EQ(told.error->rank(), -1) << told.error->what();
    EXPECT_THAT(told.error->message(), testing::AllOf(HasSubstr("(5 f32)"), HasSubstr("(6 f32)")));
  }
}

}  // namespace blame
}  // namespace
}  // namespace anello::group
