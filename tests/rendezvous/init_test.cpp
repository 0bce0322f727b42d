#include <gmock/gmock.h>

#include <anello/anello.hpp>
#include <future>
#include <numeric>

#include "rendezvous/server.hpp"
#include "ring/base/text.hpp"

namespace anello {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string refusal(const Settings& settings) {
  try {
    init(settings);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::configuration);
    return error.what();
  }
  return "accepted";
}

TEST(Init, WithNothingSetIsAWorldOfOne) {
  World world = init(Settings{});
  EXPECT_EQ(world.rank(), 0);
  EXPECT_EQ(world.size(), 1);
  EXPECT_EQ(world.local_rank(), 0);
  EXPECT_EQ(world.local_size(), 1);
  EXPECT_EQ(world.node_count(), 1);
  EXPECT_FALSE(world.host(0).empty());
  std::vector<float> values = {1, 2, 3};
  world.allreduce(values);
  EXPECT_THAT(values, testing::ElementsAre(1, 2, 3));
  EXPECT_EQ(world.average(5), 5);
  world.finish();
}

TEST(Init, RefusesSettingsThatDoNotFitTogether) {
  Settings settings;
  settings.rank = 0;
  EXPECT_THAT(refusal(settings), HasSubstr("ANELLO_RANK=0 is set and ANELLO_SIZE is not"));
  settings.size = 4;
  EXPECT_THAT(refusal(settings), AllOf(HasSubstr("ANELLO_SIZE=4 needs ANELLO_RENDEZVOUS"), HasSubstr("`anello run`")));
  settings.rank = 4;
  EXPECT_THAT(refusal(settings), HasSubstr("ANELLO_RANK=4 is not below ANELLO_SIZE=4"));
  settings = {};
  settings.log = "loud";
  EXPECT_THAT(refusal(settings), HasSubstr("ANELLO_LOG='loud' is none of"));
  settings = {};
  settings.rendezvous = "nowhere";
  EXPECT_THAT(refusal(settings), HasSubstr("ANELLO_RENDEZVOUS='nowhere'"));
  settings = {};
  settings.size = 1;
  EXPECT_EQ(refusal(settings), "accepted");
}

TEST(Init, MakesAWorldOfTheRanksThatTheServerBringsTogether) {
  RendezvousServer server({});
  std::vector<std::future<int>> ranks;
  ranks.reserve(3);
  for (int i = 0; i < 3; i++)
    ranks.push_back(std::async(std::launch::async, [&] {
      Settings settings;
      settings.size = 3;
      settings.rendezvous = text("127.0.0.1:", server.port());
      World world = init(settings);
      EXPECT_EQ(world.size(), 3);
      EXPECT_EQ(world.local_size(), 3);
      std::vector<int> sum(1000, world.rank() + 1);
      world.allreduce(sum);
      EXPECT_THAT(sum, testing::Each(6));
      world.finish();
      return world.rank();
    }));
  int total = 0;
  for (auto& rank : ranks) total += rank.get();
  EXPECT_EQ(total, 3);
}

}  // namespace
}  // namespace anello
