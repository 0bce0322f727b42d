#include <gmock/gmock.h>

#include <anello/anello.hpp>
#include <atomic>
#include <filesystem>
#include <functional>
#include <future>
#include <numeric>
#include <optional>
#include <thread>

#include "rendezvous/server/server.hpp"
#include "rendezvous/start_log.hpp"
#include "ring/base/text.hpp"
#include "ring/net/auth.hpp"
#include "tests/support/scratch.hpp"

namespace anello {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string refusal_of(const Settings& settings) {
  try {
    (void)init(settings);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::configuration);
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
  EXPECT_THAT(refusal_of(settings), HasSubstr("ANELLO_RANK=0 is set, but ANELLO_SIZE is not"));
  settings.size = 4;
  EXPECT_THAT(refusal_of(settings),
              AllOf(HasSubstr("ANELLO_SIZE=4 needs ANELLO_RENDEZVOUS"), HasSubstr("`anello run`")));
  settings.rank = 4;
  EXPECT_THAT(refusal_of(settings), HasSubstr("ANELLO_RANK=4 must be less than ANELLO_SIZE=4"));
  settings.size = 1;
  EXPECT_THAT(refusal_of(settings), HasSubstr("ANELLO_SIZE=1; for a world of one, unset ANELLO_RANK"));
  settings = {};
  settings.log = "loud";
  EXPECT_THAT(refusal_of(settings), HasSubstr("ANELLO_LOG must be error, warning, info or debug, not 'loud'"));
  settings = {};
  settings.rendezvous = "nowhere";
  EXPECT_THAT(refusal_of(settings), HasSubstr("ANELLO_RENDEZVOUS='nowhere'"));
  settings = {};
  settings.size = 1;
  EXPECT_EQ(refusal_of(settings), "accepted");
}

TEST(Init, SaysBetweenWhichRanksMemoryIsShared) {
  Settings settings;
  using rendezvous::describe_transport;
  EXPECT_EQ(describe_transport({"a", "a", "a"}, settings), "shared memory between all ranks");
  EXPECT_EQ(describe_transport({"a", "a", "b", "b"}, settings),
            "shared memory for 2 pairs of ranks, TCP for the other 4");
  settings.connections = 2;
  EXPECT_EQ(describe_transport({"", "", "b"}, settings), "TCP (2 connections) between all ranks");
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

// Returns the error of each rank.
std::vector<Error> errors_of(int ranks, const Settings& settings, const std::function<void(World&)>& program) {
  std::vector<std::future<Error>> threads;
  threads.reserve(std::size_t(ranks));
  for (int i = 0; i < ranks; i++)
    threads.push_back(std::async(std::launch::async, [&] {
      try {
        World world = init(settings);
        program(world);
      } catch (const Error& error) {
        return error;
      }
      return Error(ErrorCode::invalid_argument, "nothing failed");
    }));
  std::vector<Error> errors;
  errors.reserve(threads.size());
  for (auto& thread : threads) errors.push_back(thread.get());
  return errors;
}

class Abort : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (!GetParam().empty() && net::make_secret().empty()) GTEST_SKIP() << "built without OpenSSL";
    server_.emplace(ServerOptions{.secret = GetParam(), .size = 3});
    settings_.rendezvous = text("127.0.0.1:", server_->port());
    if (GetParam().empty()) return;
    settings_.secret_file = scratch_.put("secret", GetParam());
    std::filesystem::permissions(settings_.secret_file, std::filesystem::perms::owner_read);
  }
  Scratch scratch_;
  std::optional<RendezvousServer> server_;
  Settings settings_;

  void expect_told(const std::vector<Error>& errors, int culprit) {
    for (const Error& error : errors) {
      EXPECT_EQ(error.code(), ErrorCode::aborted) << error.what();
      EXPECT_EQ(error.rank(), culprit);
      EXPECT_THAT(error.what(), HasSubstr("the launcher ended the world: the night is over"));
    }
  }
};

TEST_P(Abort, EndsAWorldThatRuns) {
  std::atomic<int> there = 0;
  auto aborted = std::async(std::launch::async, [&] {
    while (there < 3) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_TRUE(server_->abort(2, "the night is over"));
  });
  const auto errors = errors_of(3, settings_, [&](World& world) {
    there++;
    for (;;) world.barrier();
  });
  expect_told(errors, 2);
}

TEST_P(Abort, EndsAStartUp) {
  auto aborted = std::async(std::launch::async, [&] {
    while (server_->stats().members < 2) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_TRUE(server_->abort(-1, "the night is over"));
  });
  expect_told(errors_of(2, settings_, [](World&) {}), -1);
}

TEST_P(Abort, FindsNobodyWhereNobodyIs) {
  EXPECT_FALSE(server_->abort(-1, "the night is over"));
}
INSTANTIATE_TEST_SUITE_P(, Abort, ::testing::Values("", "a secret of sixteen bytes or more"), [](const auto& one) {
  return std::string(one.param.size() > 0 ? "WithASecret" : "WithoutASecret");
});

}  // namespace
}  // namespace anello
