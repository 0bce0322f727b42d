// The rendezvous server of an elastic job ends together with all processes of its host, and a rank on another host goes
// on as the server.
#include <gmock/gmock.h>

#include <algorithm>
#include <csignal>

#include "ring/base/text.hpp"
#include "tests/cluster/hosts.hpp"
#include "tests/rendezvous/trainee.hpp"
#include "tests/support/pattern.hpp"

namespace anello::cluster {
namespace {

using ::testing::HasSubstr;

constexpr int kTrainingSteps = 4000;

class Succession : public ::testing::Test {
 protected:
  // Each host also has a network of its own, with an address that is equal on all hosts, as with the bridges of
  // containers.
  void SetUp() override {
    ASSERT_EQ(on(0, "rm -f job.secret; anello secret job.secret").code, 0);
    for (const int host : {0, 1, 2})
      ASSERT_EQ(
          on(host, "ip link add inner type bridge; ip addr add 172.17.0.1/16 dev inner; ip link set inner up").code, 0);
  }
  void TearDown() override {
    ranks_.clear();
    server_.reset();
    for (const int host : {0, 1, 2}) EXPECT_EQ(on(host, "ip link del inner").code, 0);
    expect_gone("anello_trainee");
  }

  // The server is on h0, and each rank is on the host with that number. Each step of the training takes 10 ms until the
  // world `fast_from` has begun, and then next to nothing.
  void begin(const std::vector<int>& hosts, int fast_from) {
    fast_from_ = fast_from;
    server_ = start(0, text("anello rendezvous --listen 10.77.0.1 --secret-file job.secret --min-np 1 --max-np 8 --np ",
                            hosts.size(), " --successor"));
    ASSERT_TRUE(server_->says("\n")) << server_->err();
    address_ = server_->out().substr(0, server_->out().find('\n'));
    for (const int host : hosts) join(host);
    expect_world(1);
  }
  testing::Process& join(int host) {
    ranks_.push_back(start(host, text("ANELLO_SILENCE_LIMIT=4000 ANELLO_FLIGHT_DIR=none ANELLO_SECRET_FILE=job.secret ",
                                      address_, " anello_trainee ", kTrainingSteps, " 10 ", fast_from_)));
    return *ranks_.back();
  }
  void expect_world(int number) {
    for (auto& rank : ranks_) ASSERT_TRUE(rank->says(text("world ", number, ": "))) << rank->out() << rank->err();
  }
  testing::Process& rank(const std::string& words) {
    const auto says = [&](const auto& one) { return one->out().find(words) != std::string::npos; };
    return **std::ranges::find_if(ranks_, says);
  }
  void forget(const testing::Process& rank) {
    std::erase_if(ranks_, [&](const auto& one) { return one.get() == &rank; });
  }
  // Ends all processes of h0 at once. Its kernel still answers, as after a restart.
  void lose_h0() {
    testing::Process& first = *ranks_.front();
    for (testing::Process* one : {server_.get(), &first}) one->signal(SIGKILL);
    for (testing::Process* one : {server_.get(), &first}) EXPECT_EQ(one->wait(), 137);
    forget(first);
  }
  // Returns the process on h1 or h2 that is now the server, and stores its address.
  testing::Process& successor() {
    for (auto& rank : ranks_)
      if (const auto found = pattern::find(rank->err(), "(ANELLO_RENDEZVOUS=10[.]77[.]0[.][23]:[0-9]+)")) {
        address_ = (*found)[1];
        return *rank;
      }
    throw std::runtime_error("no rank serves");
  }
  void expect_results() {
    for (auto& rank : ranks_) {
      EXPECT_EQ(rank->wait(), 0) << rank->err();
      EXPECT_THAT(rank->out(),
                  HasSubstr(text("weights ", std::uint64_t(trainee::expected(100, kTrainingSteps)), " at ")))
          << rank->err();
    }
  }

  std::string address_;  // "ANELLO_RENDEZVOUS=10.77.0.1:4000"
  int fast_from_ = 0;
  std::unique_ptr<testing::Process> server_;
  std::vector<std::unique_ptr<testing::Process>> ranks_;
};

TEST_F(Succession, ARankOfAnotherHostGoesOnAsTheServer) {
  ASSERT_NO_FATAL_FAILURE(begin({0, 1, 1, 2, 2}, 3));
  lose_h0();
  ASSERT_NO_FATAL_FAILURE(expect_world(2));
  successor();
  const testing::Process& newcomer = join(2);
  expect_results();
  EXPECT_THAT(newcomer.out(), HasSubstr(" of 5 at "));
}

// The server is one of two ranks, and leaves. If it did not hand over, the other rank could not go on: one of two is
// not enough.
TEST_F(Succession, ASuccessorHandsOverToTheOnlyRankOfAnotherHost) {
  ASSERT_NO_FATAL_FAILURE(begin({0, 1, 2}, 4));
  lose_h0();
  ASSERT_NO_FATAL_FAILURE(expect_world(2));
  testing::Process& leaver = successor();
  leaver.signal(SIGTERM);
  EXPECT_EQ(leaver.wait(), 0) << leaver.err();
  forget(leaver);
  ASSERT_NO_FATAL_FAILURE(expect_world(4));
  successor();
  expect_results();
}

// The server's host does not answer at all. The server may still run there and go on with other ranks, so the job ends
// here, with this reason.
TEST_F(Succession, ASilentHostOfTheServerEndsTheJob) {
  ASSERT_NO_FATAL_FAILURE(begin({0, 1, 2}, 2));
  const Unplugged unplugged(0);
  const std::unique_ptr<testing::Process> lost = std::move(ranks_.front());
  ranks_.erase(ranks_.begin());
  for (auto& rank : ranks_) {
    EXPECT_EQ(rank->wait(), 1) << rank->out();
    EXPECT_THAT(rank->err(), HasSubstr("this process cannot enter another world, because its connection with the "
                                       "rendezvous at 10.77.0.1:"));
  }
  ranks_.clear();
}

}  // namespace
}  // namespace anello::cluster
