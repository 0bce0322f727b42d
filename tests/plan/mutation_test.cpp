// Breaks right plans in every single place and requires that check() finds the error each time.
#include <gtest/gtest.h>

#include <ostream>
#include <string_view>

#include "tests/plan/cases.hpp"
#include "tests/plan/mutations.hpp"

namespace anello::plan {

std::ostream& operator<<(std::ostream& out, const Mutation& mutation) {
  return out << mutation.name;
}

namespace {

struct Tally {
  std::size_t tried = 0, caught = 0;
};

// True if the mutated plan is still right: if no order is guaranteed, a rank that alone adds up a part may take its
// sources in any order.
bool leaves_right(const Case& right, const Mutation& mutation) {
  return std::string_view(mutation.name) == "swap_sources" && !right.expectation.rank_order;
}

void mutate_everywhere(const Case& right, const Mutation& mutation, Tally& tally) {
  if (leaves_right(right, mutation)) return;
  for (std::size_t rank = 0; rank < right.plans.size(); rank++)
    for (std::size_t site = 0; site < mutation.sites(right.plans[rank]); site++) {
      std::vector<Plan> plans = right.plans;
      if (!mutation.apply(plans[rank], site)) continue;
      tally.tried++;
      if (check(plans, right.expectation))
        tally.caught++;
      else
        ADD_FAILURE() << right.name << ": " << mutation.name << " " << site << " of rank " << rank
                      << " goes unnoticed\n"
                      << to_text(right.plans[rank]);
    }
}

class MutationTest : public testing::TestWithParam<Mutation> {};

TEST_P(MutationTest, EveryOneIsCaught) {
  Tally tally;
  for (const std::uint64_t world : {2, 3, 4, 5})
    for (const std::uint64_t slab : {0, 5})
      for (const Case& right : all_cases(int(world), 2 * world + 1, slab)) mutate_everywhere(right, GetParam(), tally);
  for (const Layout& layout : {in_blocks({2, 2}), in_blocks({2, 1, 2}), round_robin(3, 2)})
    for (const Case& right : cases_on_hosts(layout, 2)) mutate_everywhere(right, GetParam(), tally);
  mutate_everywhere(with_scratch_slots(2), GetParam(), tally);
  EXPECT_GT(tally.tried, 0U);
  std::cout << GetParam().name << ": " << tally.caught << " of " << tally.tried << " caught\n";
}

INSTANTIATE_TEST_SUITE_P(All, MutationTest, testing::ValuesIn(mutations()),
                         [](const auto& each) { return std::string(each.param.name); });

}  // namespace
}  // namespace anello::plan
