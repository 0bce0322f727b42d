// Jobs that end badly: the culprit is named, and nothing is left on any host 5 s later.
#include <gmock/gmock.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <thread>

#include "tests/cluster/hosts.hpp"
#include "tests/cluster/uncontended_clock.hpp"

namespace anello::cluster {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr double kPromise = 5;  // seconds of a clock that stands still while the machine is busy

// Calls `happens`; `event` describes this event. After the event no rank, launcher, agent or ssh of a launcher may be
// left.
void expect_gone_after(const std::string& event, const std::function<void()>& happens) {
  const auto began = std::chrono::steady_clock::now();
  const UncontendedClock clock;
  happens();
  for (const char* program : {"anello-train", "anello", "ssh"}) expect_gone(program);
  const double counted = clock.seconds();
  EXPECT_LT(counted, kPromise) << "after " << event;
  std::printf("gone from all hosts %.1f s after %s (%.1f s counted)\n",
              std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count(), event.c_str(), counted);
}

const std::string kOnHosts = "anello run -H h0:2,h1:2,h2:2 -n 6 --";

// A job that trains for long, on six ranks.
std::unique_ptr<testing::Process> long_job(const std::string& start_it, const std::string& before = "") {
  auto job = start(0, before + " " + start_it + " " + kTrainLong);
  EXPECT_TRUE(job->says("epoch ")) << job->out() << job->err();
  EXPECT_EQ(processes("anello-train").size(), 6u);
  return job;
}

TEST(Ending, Scancel) {
  const auto job = long_job("srun -N 3 -n 6");
  expect_gone_after("scancel", [] { EXPECT_EQ(on(1, "scancel -u root").code, 0); });
  EXPECT_NE(job->wait(), 0);
}

TEST(Ending, ARankThatIsKilledIsNamed) {
  const auto job = long_job("srun -N 3 -n 6");
  expect_gone_after("the death of a rank", [] { kill(processes("anello-train").back(), SIGKILL); });
  const testing::Outcome end = end_of(*job);
  EXPECT_NE(end.code, 0);
  EXPECT_THAT(end.out + end.err, HasSubstr(" died: "));
}

constexpr const char* kSoon = "ANELLO_SILENCE_LIMIT=3000";

// Unplugs the cable of `host` until the returned object is destroyed.
std::unique_ptr<Unplugged> unplug(int host, const std::string& what) {
  std::unique_ptr<Unplugged> unplugged;
  expect_gone_after(what, [&] { unplugged = std::make_unique<Unplugged>(host); });
  return unplugged;
}

TEST(Ending, ANodeThatVanishesIsNamed) {
  const auto job = long_job("srun -N 3 -n 6", kSoon);
  const auto unplugged = unplug(2, "the loss of a node of a step (silence limit 3 s)");
  EXPECT_TRUE(job->says_error("on h2")) << job->out() << job->err();
  on(0, "scancel -u root");
  EXPECT_NE(job->wait(), 0);
}

TEST(Ending, ANodeOfAnelloRunThatVanishesIsNamed) {
  const auto job = long_job(kOnHosts, kSoon);
  const auto unplugged = unplug(2, "the loss of a node of anello run (silence limit 3 s)");
  const testing::Outcome end = end_of(*job);
  EXPECT_NE(end.code, 0);
  EXPECT_THAT(end.out + end.err, HasSubstr("h2"));
}

TEST(Ending, ALauncherThatIsCutOffLeavesNoRanks) {
  const auto job = long_job("anello run -H h1:3,h2:3 -n 6 --", kSoon);
  const auto unplugged = unplug(0, "the loss of the launcher's host (silence limit 3 s)");
  EXPECT_NE(job->wait(), 0);
}

// The cut is longer than the default limit.
TEST(Ending, ACutThatIsShorterThanTheLimitIsEndured) {
  const std::string script =
      " anello run -H h0:1,h1:1 -- sh -c 'echo up; if [ $ANELLO_RANK = 0 ]; then read line; touch go; else until [ -e "
      "go ]; "
      "do sleep 0.1; done; fi; echo goes on'";
  std::vector<std::unique_ptr<testing::Process>> jobs;
  for (const std::string limit : {"60000", "0"}) jobs.push_back(start(0, "ANELLO_SILENCE_LIMIT=" + limit + script));
  for (const auto& job : jobs) ASSERT_TRUE(job->says("[0] up") && job->says("[1] up")) << job->err();
  {
    const Unplugged unplugged(1);
    std::this_thread::sleep_for(std::chrono::seconds(12));
  }
  for (const auto& job : jobs) {
    job->type("go on\n");
    EXPECT_EQ(job->wait(), 0) << job->out() << job->err();
    EXPECT_THAT(job->out(), AllOf(HasSubstr("[0] goes on"), HasSubstr("[1] goes on")));
  }
}

TEST(Ending, ALauncherThatIsKilledTakesAllRanksWithIt) {
  const auto job = long_job("exec " + kOnHosts);
  expect_gone_after("SIGKILL to anello run", [&] { job->signal(SIGKILL); });
  EXPECT_TRUE(job->none_left());
}

TEST(Ending, SshThatIsCutTakesItsRanksWithIt) {
  const auto job = long_job(kOnHosts);
  const std::vector<pid_t> connections = processes("ssh");
  ASSERT_FALSE(connections.empty());
  expect_gone_after("SIGKILL to ssh", [&] {
    for (const pid_t connection : connections) kill(connection, SIGKILL);
  });
  EXPECT_NE(job->wait(), 0);
}

// Each rank of qsub's job is a descendant of a shepherd process, which Grid Engine starts for the job's script and for
// each qrsh.
TEST(Ending, QdelEndsRanksThatQrshStarted) {
  start_grid_engine();
  const auto job = start(0, ". ./.gridengine; qsub -sync y -j y -o out.long " + recipe("sge.sh") + " --epochs 1000000");
  ASSERT_TRUE(eventually([] { return on(0, "grep -q 'epoch ' out.long").code == 0; })) << job->out() << job->err();
  const std::vector<pid_t> ranks = processes("anello-train");
  EXPECT_EQ(ranks.size(), 6u);
  for (const pid_t rank : ranks) EXPECT_THAT(ancestors(rank), AllOf(Contains("sge_shepherd"), Not(Contains("sshd"))));
  expect_gone_after("qdel", [] { on(0, ". ./.gridengine; qdel -u root"); });
  EXPECT_NE(job->wait(), -1);
}

}  // namespace
}  // namespace anello::cluster
