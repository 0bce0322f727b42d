// Thousands of small jobs: random submissions in random orders on each rank, random delivery, differing descriptions,
// joins and deaths.
#include <algorithm>
#include <anello/error.hpp>
#include <optional>
#include <set>

#include "ring/base/text.hpp"
#include "tests/agenda/world_of_agendas.hpp"

namespace anello::agenda {
namespace {

constexpr long kSeeds = 2000;

// A rank's submission of an operation. `occurrence` counts the operations of one key since the last join.
struct Submission {
  std::string name;  // empty: unnamed
  int occurrence = 0;
  Description description;
  Sizes sizes;
  bool refused = false;  // by the rank itself
};

struct Expected {
  std::vector<std::optional<Submission>> by_rank;  // empty: the rank joins instead
};

// The operations of the ranks between two joins.
struct Round {
  // By rank: the operations not yet submitted. Only operations of the same name have an order.
  std::vector<std::vector<Submission>> of_rank;
  std::map<std::string, std::vector<Expected>> all;  // by key without its number
};

std::string without_number(const std::string& key) {
  return key.substr(0, key.find('#'));
}

Description any_description(Verb verb, int ranks, Random& random) {
  Description description{.verb = verb};
  if (verb == Verb::barrier) return description;
  if (verb == Verb::broadcast) description.root = int(random.below(std::uint64_t(ranks)));
  for (std::uint64_t k = 0; k <= random.below(2); k++) {
    const bool own_rows = verb == Verb::allgather || verb == Verb::alltoall;
    description.arrays.push_back({DType::f32, {own_rows ? 0 : random.below(3), random.below(3)}});
    if (verb == Verb::alltoall) break;
  }
  return description;
}

Sizes any_sizes(const Description& description, int ranks, Random& random) {
  Sizes sizes(number_of_sizes(description, ranks));
  for (std::uint64_t& size : sizes) size = random.below(3);
  return sizes;
}

class Job {
 public:
  explicit Job(std::uint64_t seed) : random_(seed), world_(1 + int(random_.below(10)), may_be_in_list) {
    if (random_.percent(25)) dies_after_ = int(random_.below(60));
  }

  void run() {
    for (std::uint64_t rounds = 1 + random_.below(3); rounds > 0; rounds--) {
      begin_round();
      while (!over()) step();
      if (dead()) break;
      for (int rank = 0; rank < world_.size(); rank++) check_round(rank);
    }
    for (int rank = 0; rank < world_.size(); rank++) check_same(rank);
  }

 private:
  bool dead() const { return dies_after_ < 0; }

  void begin_round() {
    round_ = {};
    round_.of_rank.resize(std::size_t(world_.size()));
    joined_.assign(std::size_t(world_.size()), false);
    begun_.clear();
    for (int rank = 0; rank < world_.size(); rank++) begun_.push_back(world_.decisions(rank).size());
    early_.assign(std::size_t(world_.size()), 0);
    if (random_.percent(50))
      for (int& operations : early_)
        if (random_.percent(30)) operations = int(random_.below(4));
    for (int names = 0; names < 6; names++) {
      const Verb verb = Verb(1 + random_.below(6));
      const std::string name = random_.percent(30) ? "" : text("n", random_.below(8));
      const std::string key = name.empty() ? text(agenda::name(verb), " ") : text(agenda::name(verb), " '", name, "'");
      if (round_.all.contains(key)) continue;
      add_operations(key, name, verb);
    }
  }

  void add_operations(const std::string& key, const std::string& name, Verb verb) {
    const int times = 1 + int(random_.below(4));
    std::vector<int> of_rank;
    for (const int early : early_) of_rank.push_back(std::max(0, times - early));
    if (std::ranges::max(of_rank) == 0) return;
    Description description = any_description(verb, world_.size(), random_);
    for (int occurrence = 0; occurrence < std::ranges::max(of_rank); occurrence++) {
      if (random_.percent(30)) description = any_description(verb, world_.size(), random_);
      const bool differs = random_.percent(15);
      const int refusals = random_.percent(15) ? 40 : 0;
      Expected& expected = round_.all[key].emplace_back();
      for (int rank = 0; rank < world_.size(); rank++) {
        expected.by_rank.emplace_back();
        if (occurrence >= of_rank[std::size_t(rank)]) continue;
        Description mine = differs && random_.percent(30) ? any_description(verb, world_.size(), random_) : description;
        expected.by_rank.back() = {name, occurrence, mine, any_sizes(mine, world_.size(), random_)};
        expected.by_rank.back()->refused = random_.percent(refusals);
        round_.of_rank[std::size_t(rank)].push_back(*expected.by_rank.back());
      }
    }
  }

  // Lets one thing happen: a rank submits, joins, sends or receives a message.
  void step() {
    if (dies_after_ >= 0 && dies_after_-- == 0) world_.kill(int(random_.below(std::uint64_t(world_.size()))), random_);
    const int rank = int(random_.below(std::uint64_t(world_.size())));
    if (random_.percent(10)) {
      world_[0].hold(random_.percent(80));
    } else if (random_.percent(10)) {
      decide_held();
    } else if (random_.percent(40)) {
      world_.deliver(random_);
    } else if (random_.percent(50)) {
      world_.send(rank);
    } else {
      act(rank);
    }
  }

  bool decide_held() {
    if (world_.is_dead(0) || !world_[0].has_held()) return false;
    world_[0].decide_held();
    world_.collect(0);
    return true;
  }

  // Threads submit in any order, except that operations of one name keep their order.
  void act(int rank) {
    if (world_.is_dead(rank) || joined_[std::size_t(rank)]) return;
    auto& left = round_.of_rank[std::size_t(rank)];
    if (left.empty()) {
      world_[rank].join();
      joined_[std::size_t(rank)] = true;
    } else {
      const std::size_t which = random_.below(left.size());
      const Submission next = left[which];
      const auto earlier = [&](const Submission& other) {
        return other.name == next.name && other.description.verb == next.description.verb &&
               other.occurrence < next.occurrence;
      };
      if (std::ranges::any_of(left, earlier)) return;
      try {
        if (!next.refused)
          world_[rank].submit(next.name, next.description, next.sizes);
        else if (!world_[rank].refuse(next.name, next.description.verb, "it is wrong"))
          return;
      } catch (const Error&) {
        return;  // the previous one is not decided
      }
      left.erase(left.begin() + std::ptrdiff_t(which));
    }
    world_.collect(rank);
  }

  // True if nothing more can happen.
  bool over() {
    for (int rank = 0; rank < world_.size(); rank++)
      if (!world_.is_dead(rank) && !joined_[std::size_t(rank)] && !stuck(rank)) return false;
    bool moved = decide_held();
    for (int rank = 0; rank < world_.size(); rank++) world_.send(rank);
    while (world_.deliver(random_)) {
      moved = true;
      for (int rank = 0; rank < world_.size(); rank++) world_.send(rank);
    }
    return !moved;
  }

  // True if the rank has only operations whose predecessors of the same name are not decided, which happens after a
  // death.
  bool stuck(int rank) {
    if (!dead()) return false;
    const auto before = round_.of_rank[std::size_t(rank)].size();
    for (int tries = 0; tries < 50; tries++) act(rank);
    return round_.of_rank[std::size_t(rank)].size() == before && !joined_[std::size_t(rank)];
  }

  void check_round(int rank) {
    const std::vector<Decision>& decisions = world_.decisions(rank);
    std::map<std::string, std::size_t> seen;
    for (std::size_t k = begun_[std::size_t(rank)]; k < decisions.size(); k++) {
      const Decision& decision = decisions[k];
      if (decision.key.empty()) {
        EXPECT_EQ(k + 1, decisions.size()) << "something was decided after the join";
        continue;
      }
      const std::string key = without_number(decision.key);
      const std::size_t occurrence = seen[key]++;
      ASSERT_TRUE(round_.all.contains(key) && occurrence < round_.all[key].size()) << decision.key;
      check_decision(rank, decision, round_.all[key][number_of(decision.key).value_or(occurrence)]);
    }
    for (const auto& [key, operations] : round_.all) EXPECT_EQ(seen[key], operations.size()) << key;
    ASSERT_FALSE(decisions.empty());
    EXPECT_TRUE(decisions.back().key.empty()) << "not all have joined";
    EXPECT_FALSE(world_[rank].waits() || world_[rank].has_to_say());
  }

  static std::optional<std::size_t> number_of(const std::string& key) {
    const auto sign = key.find('#');
    if (sign == std::string::npos) return std::nullopt;
    return std::stoul(key.substr(sign + 1));
  }

  void check_decision(int rank, const Decision& decision, const Expected& expected) {
    bool equal = true, all = true;
    const Submission* first = nullptr;
    for (const auto& submission : expected.by_rank) {
      all &= submission.has_value();
      if (!submission) continue;
      equal &= !submission->refused && (!first || submission->description == first->description);
      if (!first) first = &*submission;
    }
    const bool runs = equal && (all || allows_joined(first->description.verb));
    const auto& own = expected.by_rank[std::size_t(rank)];
    EXPECT_EQ(decision.mine, own && !own->refused);
    ASSERT_EQ(runs, !decision.refusal) << decision.key << (decision.refusal ? ": " + decision.refusal->why : "");
    if (!runs) return;
    EXPECT_EQ(decision.agreed->description, first->description);
    for (std::size_t other = 0; other < expected.by_rank.size(); other++)
      EXPECT_EQ(decision.agreed->sizes[other], expected.by_rank[other] ? expected.by_rank[other]->sizes : Sizes())
          << decision.key << other;
  }

  // All ranks must have the same decisions in the same order. After a death, some ranks may lack the last decisions.
  void check_same(int rank) {
    const auto &first = world_.decisions(0), &mine = world_.decisions(rank);
    EXPECT_TRUE(dead() || first.size() == mine.size());
    for (std::size_t k = 0; k < std::min(first.size(), mine.size()); k++) {
      ASSERT_EQ(first[k].key, mine[k].key);
      EXPECT_EQ(first[k].refusal, mine[k].refusal);
      EXPECT_EQ(first[k].last, mine[k].last);
      EXPECT_EQ(first[k].with_next, mine[k].with_next);
      ASSERT_EQ(!first[k].agreed, !mine[k].agreed);
      if (!mine[k].agreed) continue;
      EXPECT_EQ(first[k].agreed->description, mine[k].agreed->description);
      EXPECT_EQ(first[k].agreed->sizes, mine[k].agreed->sizes);
    }
  }

  Random random_;
  WorldOfAgendas world_;
  Round round_;
  // By rank: how many operations of each name it leaves out because it joins before them. The number is equal for all
  // names, because otherwise two ranks could each wait for the other to join.
  std::vector<int> early_;
  std::vector<bool> joined_;
  std::vector<std::size_t> begun_;  // decisions before this round, by rank
  int dies_after_ = INT32_MAX;      // number of steps until one rank dies; negative: it has died
};

TEST(AgendaSimulation, RandomJobsReachTheSameDecisionsOnAllRanks) {
  for (const std::uint64_t seed : seeds(kSeeds)) {
    SCOPED_TRACE(replay(seed));
    Job(seed).run();
    if (testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace anello::agenda
