// Carries out a few trials of each fault. The program anello-faults carries out any number of them.
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <deque>
#include <filesystem>
#include <thread>

#include "rendezvous/server/server.hpp"
#include "ring/base/text.hpp"
#include "tests/faults/besieged.hpp"
#include "tests/faults/proxy_delay.hpp"
#include "tests/faults/trial.hpp"
#include "tests/support/process.hpp"
#include "tests/support/random.hpp"
#include "tests/support/scratch.hpp"
#include "tests/support/starvation.hpp"
#include "tests/support/undisturbed.hpp"

namespace anello::faults {

void PrintTo(Fault fault, std::ostream* out) {
  *out << name(fault);
}

namespace {

class EachFault : public ::testing::TestWithParam<Fault> {};

TEST_P(EachFault, AreFoundOutAsPromised) {
  for (const std::uint64_t seed : seeds(GetParam() == Fault::kill ? 24 : 3 * kSlowdown)) {
    const Trial trial = any_trial(GetParam(), seed);
    EXPECT_EQ(carry_out(trial, ANELLO_VICTIM).wrong, "") << describe(trial) << "; " << replay(seed);
  }
}
INSTANTIATE_TEST_SUITE_P(, EachFault,
                         ::testing::Values(Fault::none, Fault::server, Fault::kill, Fault::stop, Fault::pause),
                         [](const auto& tested) { return std::string(name(tested.param)); });

// If a rank dies before it connects with the others, only the rendezvous sees this death.
TEST(Faults, ADeathWhileOthersConnectIsKnownAtOnce) {
  for (int delay = 0; delay < 6; delay++) {
    const Trial trial{.moment = Moment::start, .ranks = 2, .victim = 1, .delay = milliseconds(delay / 2)};
    EXPECT_EQ(carry_out(trial, ANELLO_VICTIM).wrong, "") << describe(trial);
  }
}

// Ranks 0 and 3 of 6 are not connected at the start; the others leave in good order. Returns true if rank 0, which
// waits in a group with rank 3, received the error that rank 3 died.
bool received_death_after_departures(milliseconds rest) {
  RendezvousServer server({.size = 6});
  std::deque<testing::Process> ranks;
  for (int rank = 0; rank < 6; rank++) {
    const std::vector<std::string> environment{text("ANELLO_RANK=", rank), "ANELLO_SIZE=6", "ANELLO_FLIGHT_DIR=none",
                                               text("ANELLO_RENDEZVOUS=127.0.0.1:", server.port())};
    ranks.emplace_back(std::vector<std::string>{ANELLO_VICTIM, "departing", "1", "2", "4", "5"},
                       testing::Surroundings{.environment = environment});
  }
  for (const int rank : {1, 2, 4, 5}) EXPECT_EQ(ranks[std::size_t(rank)].wait(), 0) << ranks[std::size_t(rank)].out();
  for (const int rank : {0, 3}) EXPECT_TRUE(ranks[std::size_t(rank)].says("remaining"));
  std::this_thread::sleep_for(rest);
  ranks[3].signal(SIGKILL);
  if (ranks[0].wait(milliseconds(2000) + rest) < 0) return false;
  EXPECT_THAT(ranks[0].out(), ::testing::HasSubstr(" rank_dead 3 "));
  return true;
}

// The time that ranks 0 and 3 need to connect depends on the machine, so the test tries several times.
TEST(Faults, ADeathIsKnownAlsoWhenAllRanksBetweenHaveLeft) {
  EXPECT_TRUE(received_death_after_departures(milliseconds(400)) ||
              received_death_after_departures(milliseconds(10000)));
}

// The test starts the ranks without a launcher, because a launcher would see the death of its own child.
TEST(Faults, ADeathIsKnownAtOnceThoughAChildOfTheDeadRankGoesOn) {
  for (const Moment child : {Moment::parent, Moment::worker})
    for (const std::string transport : {"tcp", "auto"}) {
      const Trial trial{.moment = child, .ranks = 2, .victim = 1, .transport = transport};
      EXPECT_EQ(carry_out(trial, ANELLO_VICTIM).wrong, "") << describe(trial);
    }
}

// Afterwards the file has one complete state: the old one or the new one.
TEST(Checkpoint, SurvivesThatItsWriterIsKilled) {
  const Scratch scratch;
  const std::string file = scratch / "state", fresh = file + ".part";
  const auto train = [&](const std::string& epochs) {
    return std::vector<std::string>{ANELLO_TRAINER, "--hidden",     "512,512", "--epochs",
                                    epochs,         "--checkpoint", file,      "--resume"};
  };
  std::vector<std::string> first = train("1");
  first.pop_back();
  ASSERT_EQ(testing::run(first).code, 0);
  int in_the_middle = 0;
  for (int trial = 0; trial < 8; trial++) {
    testing::Process job(train("100000"));
    ASSERT_TRUE(job.says("epoch "));
    while (!std::filesystem::exists(fresh) && job.wait(milliseconds(0)) == -1) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::microseconds(200 * trial));
    job.signal(SIGKILL);
    EXPECT_EQ(job.wait(), 128 + SIGKILL);
    in_the_middle += std::filesystem::exists(fresh);
    const testing::Outcome after = testing::run(train("1"));
    EXPECT_EQ(after.code, 0) << after.err;
    EXPECT_THAT(after.out, ::testing::HasSubstr("continuing after epoch"));
  }
  EXPECT_GT(in_the_middle, 0) << "no trial met a checkpoint that was being written";
}

TEST(LongestWait, IsThatOfOneThreadWithoutABreak) {
  using std::chrono::seconds;
  LongestWait wait({{"1", seconds(7)}});
  wait.add({{"1", seconds(7)}, {"2", milliseconds(30)}});
  EXPECT_EQ(wait.value(), milliseconds(30)) << "of a thread that began after the last sample";
  std::chrono::nanoseconds waited = seconds(7);
  for (int k = 0; k < 1000; k++) {
    waited += milliseconds(40);
    wait.add({{"1", waited}, {"2", waited - seconds(7)}});
  }
  EXPECT_EQ(wait.value(), milliseconds(40)) << "40 s in turns";
  wait.add({{"1", waited}, {"2", waited - seconds(7) + milliseconds(900)}});
  wait.add({{"1", waited + milliseconds(40)}});
  EXPECT_EQ(wait.value(), milliseconds(900));
}

TEST(Starvation, IsNoticedAndNothingElseIs) {
  const auto begun = std::chrono::steady_clock::now();
  Starvation starvation;
  std::this_thread::sleep_for(milliseconds(100));
  EXPECT_LE(starvation.longest(), std::chrono::steady_clock::now() - begun);
  const pid_t waker = fork();
  if (waker == 0) {
    while (!testing::in_state(getppid(), 'T')) continue;
    usleep(700'000);
    kill(getppid(), SIGCONT);
    _exit(0);
  }
  raise(SIGSTOP);
  waitpid(waker, nullptr, 0);
  const auto deadline = std::chrono::steady_clock::now() + testing::kLong;
  while (starvation.longest() < milliseconds(500) && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(milliseconds(10));
  EXPECT_GE(starvation.longest(), milliseconds(500));
  EXPECT_LE(starvation.longest(), std::chrono::steady_clock::now() - begun);
}

TEST(Starvation, CanDelayAPingByMoreThanAHeartbeat) {
  const milliseconds limit(1000);
  EXPECT_FALSE(could_be_silent(milliseconds(90), limit, milliseconds(459)));
  EXPECT_TRUE(could_be_silent(milliseconds(90), limit, milliseconds(460)));
  EXPECT_FALSE(could_be_silent(milliseconds(291), limit, std::nullopt));
  EXPECT_TRUE(could_be_silent(milliseconds(292), limit, std::nullopt));
}

// Runs a check that fails the first `failing` times. Returns how often the check was carried out. `seen`: the expected
// number of reported failures.
int times(milliseconds tolerated, int failing, int seen) {
  int times = 0;
  ::testing::TestPartResultArray reported;
  {
    const Findings findings(reported);
    undisturbed(tolerated, [&] { EXPECT_GT(++times, failing); });
  }
  EXPECT_EQ(reported.size(), seen);
  return times;
}

TEST(Undisturbed, AFailureCountsUnlessTheMachineMayBeToBlame) {
  constexpr milliseconds kAlwaysDisturbed{-1}, kNeverDisturbed{3'600'000};
  EXPECT_EQ(times(kNeverDisturbed, 0, 0), 1);
  EXPECT_EQ(times(kNeverDisturbed, 1, 1), 1);
  EXPECT_EQ(times(kAlwaysDisturbed, 2, 0), 3);
  EXPECT_EQ(times(kAlwaysDisturbed, 1000, 1), 20);
}

TEST(Lateness, GrowsWithTheLongestWait) {
  EXPECT_EQ(lateness(milliseconds(0), milliseconds(3000)), milliseconds(0));
  EXPECT_EQ(lateness(milliseconds(100)), milliseconds(1000));
  EXPECT_EQ(lateness(milliseconds(749), milliseconds(3000)), milliseconds(7490));
  EXPECT_EQ(lateness(milliseconds(750), milliseconds(3000)), milliseconds(10500));
}

// A heartbeat takes 280 ms, and a ping of 4 messages takes four times as long.
TEST(ProxyDelay, IsThatOfAllMessagesOfAPing) {
  Proxied proxied(2);
  ProxyDelay delay(proxied);
  proxied.everywhere({.delay = milliseconds(280)});
  std::this_thread::sleep_for(milliseconds(3 * 4 * 280));
  EXPECT_GE(delay.longest(), milliseconds(4 * 280));
}

TEST(ProxyDelay, EndsWhileNothingComesThrough) {
  Proxied proxied(2);
  ProxyDelay delay(proxied);
  proxied.everywhere({.cut_off = true});
  std::this_thread::sleep_for(milliseconds(100));
}

TEST(Siege, CostsAJobNothingAndIsCounted) {
  const Outcome outcome = carry_out({ANELLO_PROGRAM, {ANELLO_VICTIM, "pausing"}, 25, 400});
  EXPECT_EQ(outcome.wrong, "");
  EXPECT_THAT(outcome.made, ::testing::Each(25));
  EXPECT_EQ(miscounted(outcome), "");
}

}  // namespace
}  // namespace anello::faults
