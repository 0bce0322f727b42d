// Elastic jobs on several hosts, by ssh and in an allocation of Slurm: processes and hosts are lost, hosts come, and
// the result is that of an undisturbed training.
#include <gmock/gmock.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "ring/base/text.hpp"
#include "tests/cluster/hosts.hpp"
#include "tests/launch/disturbed_job.hpp"
#include "tests/launch/failover_job.hpp"
#include "tests/rendezvous/trainee.hpp"
#include "tests/support/scratch.hpp"
#include "tests/trainer/training_log.hpp"

namespace anello::cluster {
namespace {

using ::testing::HasSubstr;

constexpr int kSteps = 4000;
constexpr const char* kQuick = "ANELLO_SILENCE_LIMIT=4000 ANELLO_FLIGHT_DIR=none ";

class Elastic : public ::testing::Test {
 protected:
  // Each step takes 10 ms until the world `fast_from` has begun, and then next to nothing.
  static std::string training(int fast_from) { return text(" -- anello_trainee ", kSteps, " 10 ", fast_from); }
  static std::string result() {
    return text("] weights ", std::uint64_t(trainee::expected(100, kSteps)), " at ", kSteps, "\n");
  }
  static void expect_results(testing::Process& job, std::size_t count) {
    const testing::Outcome end = end_of(job);
    EXPECT_EQ(end.code, 0) << end.out << end.err;
    EXPECT_EQ(launch::count(end.out, result()), count) << end.out << end.err;
  }
  static void expect_begins(testing::Process& job, int processes) {
    for (int place = 0; place < processes; place++)
      ASSERT_TRUE(job.says(text("[", place, "] world 1: "))) << job.out() << job.err();
  }
  // The other hosts go on within 5 s: the limit of silence, and one second.
  static void expect_survives_the_loss_of_h2(testing::Process& job) {
    const auto began = std::chrono::steady_clock::now();
    const Unplugged unplugged(2);
    ASSERT_TRUE(job.says("] world 2: ")) << job.out() << job.err();
    std::printf("the others went on %.1f s after the loss of a host (silence limit 4 s)\n",
                std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count());
    expect_results(job, 4);
  }
};

TEST_F(Elastic, ALostHostIsLeftOut) {
  const auto job = start(0, kQuick + ("anello run -H h0:2,h1:2,h2:2 --min-np 2 --max-restarts 0" + training(2)));
  expect_begins(*job, 6);
  expect_survives_the_loss_of_h2(*job);
  expect_gone("anello_trainee");
}

TEST_F(Elastic, ALostNodeOfAnAllocationIsLeftOut) {
  const auto job = start(0, kQuick + ("salloc -Q --no-kill -N 3 --ntasks-per-node=2 anello run -n 6 --min-np 2 "
                                      "--max-restarts 0" +
                                      training(2)));
  expect_begins(*job, 6);
  expect_survives_the_loss_of_h2(*job);
  expect_gone("anello_trainee");
}

TEST_F(Elastic, AKilledProcessOfAnAllocationIsReplaced) {
  const auto job = start(0, kQuick + ("salloc -Q -N 3 --ntasks-per-node=1 anello run -n 3 --min-np 1" + training(3)));
  expect_begins(*job, 3);
  kill(processes("anello_trainee").back(), SIGKILL);
  expect_results(*job, 3);
}

TEST_F(Elastic, TheJobGrowsOnAHostThatIsListedLater) {
  ASSERT_EQ(on(0, "echo h0:2 > hosts").code, 0);
  const auto job = start(0, kQuick + ("anello run --host-discovery-script 'cat hosts' -n 2 --min-np 1" + training(2)));
  expect_begins(*job, 2);
  ASSERT_EQ(on(0, "echo h0:2 > new; echo h2:2 >> new; mv new hosts").code, 0);
  ASSERT_TRUE(job->says("] world 2: ")) << job->out() << job->err();
  expect_results(*job, 4);
}

launch::Site three_hosts(const std::string& program, const std::string& hosts) {
  const auto joined = [](const launch::Words& words) {
    std::string line;
    for (const std::string& word : words) line += word + " ";
    return line;
  };
  launch::Site site{.options = {"-H", hosts}};
  site.start = [=](const launch::Words& command, testing::Surroundings around) {
    return start(0, joined(command), std::move(around));
  };
  site.run = [=](const launch::Words& command) { return on(0, joined(command)); };
  site.process_at = [program](const testing::Process&, int place) {
    for (const pid_t pid : processes(program))
      if (launch::variable_of_process(pid, "ANELLO_PLACE") == std::to_string(place)) return pid;
    return -1;
  };
  // The launcher runs on h0. A cut is shorter or longer than the limit of silence. Within twice this limit the others
  // find out who is left; otherwise a second fault in that time could kill the last processes that have the state.
  site.cut = [](unsigned random) {
    const int host = 1 + int(random % 2);
    const std::chrono::milliseconds length(200 + random / 2 % 5000);
    plug(host, false);
    std::this_thread::sleep_for(length);
    plug(host, true);
    std::this_thread::sleep_for(2 * launch::kSilenceLimit + std::chrono::seconds(1));
    return text("h", host, " was cut off for ", length.count(), " ms");
  };
  return site;
}

TEST_F(Elastic, KilledAndStoppedProcessesAndCutCablesChangeNothing) {
  constexpr int kWorlds = 8, kMaxEvents = 40;
  launch::with_seeds(1, [](unsigned seed) {
    launch::DisturbedJob job({.seed = seed, .first = 6, .cuts = 6, .longest = testing::Milliseconds(400)},
                             {"anello_trainee", std::to_string(kSteps), "10", std::to_string(kWorlds)},
                             three_hosts("anello_trainee", "h0:2,h1:2,h2:2"));
    if (!job.begins()) return "it does not begin: " + job.story();
    job.disturb([&] { return job.events() >= kMaxEvents; });
    if (!job.ends_well()) return text("it ended with ", job.launcher().wait(), ": ", job.story());
    const std::size_t same = launch::count(job.launcher().out(), result());
    const std::size_t all = launch::count(job.launcher().out(), "] weights ");
    std::printf("%d events, %zu of them cuts; %zu results\n", job.events(), launch::count(job.story(), " was cut off "),
                all);
    expect_gone("anello_trainee");
    return all > 0 && same == all ? "" : text(same, " of ", all, " results are right: ", job.story());
  });
}

// A disturbed training of the digits, and an undisturbed training on h0. Both must use the same samples.
// ANELLO_ELASTIC_EPOCHS sets the length of both.
class Digits {
 public:
  Digits() {
    const char* const epochs = std::getenv("ANELLO_ELASTIC_EPOCHS");
    options_ = text(" --global-batch 16 --epochs ", epochs ? epochs : "30", " --log ");
    EXPECT_EQ(on(0, "anello-train" + options_ + undisturbed_).code, 0);
  }
  std::string command() const { return "anello-train --elastic" + options_ + log_; }
  // Returns a description of anything wrong in the training; empty if everything was right.
  std::string what_is_wrong() const {
    const trainer::Log disturbed(log_);
    std::printf("%zu worlds, accuracy %.4f\n", disturbed.worlds(), disturbed.accuracy());
    if (disturbed.worlds() < 2) return "there was only one world";
    return difference(disturbed, trainer::Log(undisturbed_));
  }

 private:
  const Scratch scratch_;
  const std::string log_ = scratch_ / "log", undisturbed_ = scratch_ / "undisturbed";
  std::string options_;
};

TEST_F(Elastic, KillsAndCutCablesChangeNoTrainingOfDigits) {
  constexpr int kMaxEvents = 40;
  const Digits digits;
  launch::with_seeds(1, [&](unsigned seed) {
    launch::DisturbedJob job({.seed = seed, .first = 8, .min = 2, .max = 8, .cuts = 3}, {digits.command()},
                             three_hosts("anello-train", "h0:3,h1:3,h2:2"));
    if (!job.begins()) return "it does not begin: " + job.story();
    job.disturb([&] { return job.events() >= kMaxEvents; });
    if (!job.ends_well()) return text("it ended with ", job.launcher().wait(), ": ", job.story());
    expect_gone("anello-train");
    std::printf("%d events, %zu of them cuts\n", job.events(), launch::count(job.story(), " was cut off "));
    const std::string wrong = job.events() == 0 ? "nothing has happened" : digits.what_is_wrong();
    return wrong.empty() ? "" : wrong + ": " + job.story();
  });
}

// The server runs on h0 and is killed. Later the processes that go on as the server are killed, too.
TEST_F(Elastic, KilledServersChangeNoTrainingOfDigits) {
  constexpr int kFirst = 8, kLeast = 3, kMax = 8, kEvents = 20;
  const Digits digits;
  ASSERT_EQ(on(0, "rm -f job.secret; anello secret job.secret").code, 0);
  const std::string around = text("ANELLO_SILENCE_LIMIT=", launch::kSilenceLimit.count(),
                                  " ANELLO_FLIGHT_DIR=none ANELLO_SECRET_FILE=job.secret ");
  const launch::FailoverJob::Site site{
      .serve =
          [&] {
            return start(0, text(around, "anello rendezvous --listen 10.77.0.1 --successor --min-np 1 --max-np ", kMax,
                                 " --np ", kFirst));
          },
      .join = [&](int host,
                  const std::string& address) { return start(host, around + address + " " + digits.command()); },
      .begins =
          [](const auto& members) {
            const auto trains = [](const auto& one) { return one.process->says("epoch", testing::Milliseconds(20)); };
            return eventually([&] { return std::ranges::any_of(members, trains); });
          },
      .hosts = 3,
      .plug = plug};
  int servers_killed = 0;
  launch::with_seeds(1, [&](unsigned seed) {
    launch::FailoverJob job(seed, kFirst, kLeast, kMax, site);
    if (!job.begins()) return "it does not begin: " + job.story();
    std::string wrong = job.disturb(kEvents);
    if (wrong.empty()) wrong = job.end();
    std::printf("%d events, %d servers killed\n", job.events(), job.servers_killed());
    servers_killed += job.servers_killed();
    if (wrong.empty()) wrong = digits.what_is_wrong();
    expect_gone("anello-train");
    return wrong.empty() ? "" : wrong + ": " + job.story();
  });
  EXPECT_GT(servers_killed, 0);
}

}  // namespace
}  // namespace anello::cluster
