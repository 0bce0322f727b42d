// Ranks that are processes started with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, without a launcher that watches
// them.
#include <gmock/gmock.h>

#include <deque>
#include <thread>

#include "rendezvous/server/server.hpp"
#include "ring/base/text.hpp"
#include "tests/rendezvous/joining.hpp"
#include "tests/support/free_ports.hpp"
#include "tests/support/process.hpp"

namespace anello {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Variables = std::vector<std::string>;

class HandStart : public ::testing::Test {
 protected:
  testing::Process& start(int rank, int size, const Variables& more = {}, bool waits = false, int attempts = 1) {
    Variables all = {text("RANK=", rank),          text("WORLD_SIZE=", size),   text("LOCAL_WORLD_SIZE=", size),
                     "MASTER_ADDR=localhost",      text("MASTER_PORT=", port_), "ANELLO_FLIGHT_DIR=none",
                     "ANELLO_START_TIMEOUT=240000"};
    all.insert(all.end(), more.begin(), more.end());
    std::vector<std::string> command = {STARTER, std::to_string(attempts)};
    if (waits) command.push_back("wait");
    testing::Process& process = ranks_.emplace_back(command, testing::Surroundings{.environment = all});
    EXPECT_TRUE(process.says("started"));
    return process;
  }

  const std::uint16_t port_ = consecutive_free_ports(1);
  std::deque<testing::Process> ranks_;
};

TEST_F(HandStart, ARankWhoseStartHasFailedMeetsTheOthersLater) {
  const Variables impatient = {"ANELLO_START_TIMEOUT=700"};
  testing::Process& first = start(1, 2, impatient, false, 200);
  ASSERT_TRUE(first.says("no rendezvous"));
  testing::Process& second = start(0, 2, impatient, false, 200);
  EXPECT_EQ(first.wait(), 0) << first.out();
  EXPECT_EQ(second.wait(), 0) << second.out();
}

TEST_F(HandStart, StartsMayFollowEachOtherAtOnce) {
  for (int round = 0; round < 5; round++) {
    const std::size_t begin = ranks_.size();
    for (const int rank : {2, 0, 1}) start(rank, 3);
    EXPECT_EQ(ranks_[begin].wait(), 0) << ranks_[begin].out();  // the others may still be there
  }
  for (testing::Process& rank : ranks_) EXPECT_EQ(rank.wait(), 0) << rank.out();
}

TEST_F(HandStart, ARankZeroThatCannotStartInformsTheOthers) {
  testing::Process& one = start(1, 3);
  testing::Process& two = start(2, 3);
  testing::Process& zero = start(0, 3, {"ANELLO_LOG=bogus"});
  EXPECT_EQ(zero.wait(), 1) << "not aborted";
  for (testing::Process* rank : {&one, &two}) {
    EXPECT_EQ(rank->wait(), 1);
    EXPECT_THAT(rank->out(), HasSubstr("ANELLO_LOG must be error, warning, info or debug, not 'bogus'"));
  }
}

TEST_F(HandStart, ARankThatCannotStartInformsTheOthers) {
  for (const char* wrong : {"ANELLO_SHM_BYTES=abc", "ANELLO_IFACE=nowhere"}) {
    testing::Process& zero = start(0, 3, {"ANELLO_LOG=info"});
    testing::Process& one = start(1, 3);
    ASSERT_TRUE(zero.says_error("rank 1 ("));
    testing::Process& two = start(2, 3, {wrong});
    EXPECT_EQ(two.wait(), 1);
    EXPECT_THAT(two.out(), HasSubstr(std::string(wrong).substr(0, 12)));
    for (testing::Process* rank : {&zero, &one}) {
      EXPECT_EQ(rank->wait(), 1);
      EXPECT_THAT(rank->out(), AllOf(HasSubstr("rank 2 ("), HasSubstr(std::string(wrong).substr(0, 12))));
    }
  }
}

// The older start is left over because its other ranks never came, or it belongs to another job with the same
// MASTER_PORT.
TEST_F(HandStart, TwoStartsOfOneNameAreBothInformed) {
  testing::Process& old = start(0, 3, {"ANELLO_LOG=info"});
  ASSERT_TRUE(old.says_error("rank 0 ("));
  testing::Process& late = start(2, 3, {}, true);
  testing::Process& one = start(1, 3);
  ASSERT_TRUE(old.says_error("rank 1 ("));
  testing::Process& zero = start(0, 3);
  EXPECT_EQ(old.wait(), 1);
  late.type("\n");
  for (testing::Process* rank : {&old, &zero, &one, &late}) {
    EXPECT_EQ(rank->wait(), 1);
    EXPECT_THAT(rank->out(), AllOf(HasSubstr("rank 0 is claimed twice"), HasSubstr("MASTER_PORT")));
  }
}

// A supervisor that has ended all ranks restarts them at once, while a rank of the first start is still joining.
TEST_F(HandStart, ARelaunchAtItsServerReceivesNothingOfTheStartBefore) {
  const RendezvousServer server({});
  const Variables there = {text("ANELLO_RENDEZVOUS=127.0.0.1:", server.port())};
  testing::Process& late = start(2, 3, there, true);
  EXPECT_EQ(start(1, 3, {there[0], "ANELLO_IFACE=nowhere"}).wait(), 1);
  ASSERT_TRUE(eventually([&] { return !server.stats().last_failure.empty(); }));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // twice the resolution of process_age()
  testing::Process& zero = start(0, 3, there);
  testing::Process& one = start(1, 3, there);
  ASSERT_TRUE(eventually([&] { return server.stats().members == 2; })) << zero.out() << one.out();
  late.type("\n");
  EXPECT_EQ(late.wait(), 1);
  EXPECT_THAT(late.out(), AllOf(HasSubstr("rank 1 ("), HasSubstr("ANELLO_IFACE")));
  testing::Process& two = start(2, 3, there);
  for (testing::Process* rank : {&zero, &one, &two}) EXPECT_EQ(rank->wait(), 0) << rank->out();
}

TEST_F(HandStart, ALateRankReceivesWhoEndedBeforeItCame) {
  testing::Process& zero = start(0, 4, {"ANELLO_LOG=info"});
  testing::Process& one = start(1, 4);
  testing::Process& two = start(2, 4);
  testing::Process& late = start(3, 4, {}, true);
  ASSERT_TRUE(zero.says_error("rank 1 ("));
  ASSERT_TRUE(zero.says_error("rank 2 ("));
  two.signal(SIGKILL);
  EXPECT_EQ(one.wait(), 1);
  late.type("\n");
  for (testing::Process* rank : {&zero, &one, &late}) {
    EXPECT_EQ(rank->wait(), 1);
    EXPECT_THAT(rank->out(), AllOf(HasSubstr("rank 2 ("), HasSubstr("(rank 2)")));
  }
}

}  // namespace
}  // namespace anello
